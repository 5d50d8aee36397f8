"""The check of attention's products finds those that leak, and the exact ones pass it whatever the chip."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from runners.runtime.attention import QUERY_SIZES
from runners.runtime.kernels.products import ExactProducts, FastProducts
from runners.runtime.kernels.products_check import AttentionShape, choose_products, rows_hold

SHAPES = [
    AttentionShape(9, 3, 64, QUERY_SIZES, (32, 64, 96, 128, 192, 256, 384, 512)),
    AttentionShape(4, 4, 16, QUERY_SIZES, (96, 128, 192, 512)),
]


@pytest.fixture(autouse=True)
def inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


class LeakyScores(ExactProducts):
    """Scores that change a little when a chunk has a certain size."""

    def scores(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return super().scores(queries, keys) * (1 + 0.001 * (queries.shape[1] == 4 * 3 and keys.shape[2] == 96))


class LeakyMix(ExactProducts):
    """Weighted values that change a little when several sequences share a product."""

    def mix(self, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return super().mix(weights, values) * (1 + 0.001 * (weights.shape[0] == 3 * 2 and weights.shape[2] == 32))


@pytest.mark.parametrize("shape", SHAPES)
def test_exact_products_hold(shape: AttentionShape) -> None:
    assert rows_hold(ExactProducts(), shape)


@pytest.mark.parametrize("products", [LeakyScores(), LeakyMix()])
def test_products_that_leak_at_one_shape_are_found_out(products: ExactProducts) -> None:
    assert not rows_hold(products, SHAPES[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_fast_products_are_taken_where_they_hold_and_no_other(shape: AttentionShape) -> None:
    assert choose_products(shape).name == ("fast" if rows_hold(FastProducts(), shape) else "exact")


@pytest.fixture
def float32_products() -> Iterator[None]:
    """As on a chip that does not multiply bf16. (pytest's monkeypatch can't restore this attribute.)"""
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "ieee"
    yield
    settings.fp32_precision = before


@pytest.mark.usefixtures("float32_products")
def test_float32_products_are_not_taken_where_a_single_query_differs() -> None:
    queries, keys = torch.randn(3, 12, 64), torch.randn(3, 64, 512)
    leaks = not torch.equal(torch.bmm(queries[:, :3].contiguous(), keys), torch.bmm(queries, keys)[:, :3])
    assert choose_products(SHAPES[0]).name == "exact" or not leaks


@pytest.mark.parametrize("num_keys", [40, 512, 700])
def test_both_products_are_close_to_float64(num_keys: int) -> None:
    queries, keys, values = torch.randn(3, 9, 64), torch.randn(3, 64, num_keys), torch.randn(3, num_keys, 64)
    weights = torch.softmax(torch.randn(3, 9, num_keys), dim=-1)
    for products in (FastProducts(), ExactProducts()):
        scores = products.scores(queries, keys.to(products.keys_dtype))
        torch.testing.assert_close(scores.double(), queries.double() @ keys.double(), rtol=0.03, atol=0.2)
        mixed = products.mix(weights, values.to(products.values_dtype))
        torch.testing.assert_close(mixed.double(), weights.double() @ values.double(), rtol=0.03, atol=0.03)
        assert scores.dtype == mixed.dtype == torch.float32
