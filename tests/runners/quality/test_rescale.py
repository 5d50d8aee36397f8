"""Rescaled channels: the same function of every family, other weights, and no longer on a 4-bit grid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest
import torch
from family_models import FAMILIES, VOCAB, build_reference, save_folder
from float32_parts import build_float32
from tiny_model import TinyModel, write_tiny_model

from runners.quality.rescale import WIDEST, RescaledWeights
from runners.runtime.executor import ScheduledSequence
from runners.runtime.loading.weights import open_model
from runners.runtime.quantize.int4 import round_to_int4
from runners.runtime.sequence import SamplingParams

TEXT = tuple(1 + (7 * i * i + 11 * i) % (VOCAB - 1) for i in range(48))
TABLE = tuple(range(3))


@pytest.fixture(autouse=True)
def float32_products() -> Iterator[None]:
    before = torch.backends.mkldnn.matmul.fp32_precision
    yield
    torch.backends.mkldnn.matmul.fp32_precision = before


def logits(path: Path, **options) -> torch.Tensor:
    executor = build_float32(path, num_blocks=4, block_size=16, **options)
    return executor.logits((ScheduledSequence("text", TEXT, 0, TABLE, True, SamplingParams(), 0),))[0]


ROUNDING, ROUTER_ROUNDING = 2e-5, 1e-3
"""Mean error over the logits' spread: of float32, and where a router's weights are rounded to bf16 in any precision."""


@pytest.mark.parametrize(
    ("family", "bound"),
    [("llama-biased", ROUNDING), ("smollm2", ROUNDING), ("qwen3", ROUNDING), ("gemma2", ROUNDING),
     ("qwen3-moe", ROUTER_ROUNDING)],
)  # fmt: skip
def test_the_function_is_the_same_but_for_rounding(family: str, bound: float, tmp_path: Path) -> None:
    path = save_folder(build_reference(FAMILIES[family]), tmp_path / family)
    before, after = logits(path), logits(path, change=RescaledWeights)
    assert float((after - before).abs().mean()) < bound * float(before.max() - before.min())


def test_the_weights_are_others_by_factors_that_are_no_powers_of_two(tmp_path: Path) -> None:
    config, weights = open_model(write_tiny_model(tmp_path / "tiny.gguf"))
    before, after = weights.layer(0), RescaledWeights(weights, config).layer(0)
    for one, other in ((before.ffn.gate, after.ffn.gate), (before.ffn.down, after.ffn.down)):
        factors = (other / one)[0]
        assert float(factors.min()) >= 1 / WIDEST - 1e-6 and float(factors.max()) <= WIDEST + 1e-6
        assert len(set(factors.tolist())) == len(factors) and not bool((factors.log2().frac() == 0).any())
    assert not torch.equal(before.o, after.o) and not torch.equal(before.attention_norm, after.attention_norm)


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    config, weights = open_model(write_tiny_model(tmp_path / "tiny.gguf"))
    one, again, other = (RescaledWeights(weights, config, seed).layer(1).qkv for seed in ("a", "a", "b"))
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_a_4_bit_grid_that_fits_the_file_does_not_fit_the_rescaled_weights(tmp_path: Path) -> None:
    model = TinyModel(weight_type=gguf.GGMLQuantizationType.Q4_1)
    config, weights = open_model(write_tiny_model(tmp_path / "tiny.gguf", model))

    def error(weight: torch.Tensor) -> float:
        return float((round_to_int4(weight) - weight).norm() / weight.norm())

    plain, rescaled = weights.layer(0).ffn.gate, RescaledWeights(weights, config).layer(0).ffn.gate
    assert error(plain) < 0.01 < 0.05 < error(rescaled)
