"""Native kernels against the portable ones, and row blocks against every cut of the rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runners.runtime.kernels import onednn, portable
from runners.runtime.kernels.elementwise import apply_rope_, geglu, rms_norm, rope_table, soft_cap, swiglu
from runners.runtime.kernels.interface import KernelSet, RowFunction
from runners.runtime.kernels.rows import row_blocks
from runners.runtime.kernels.selfcheck import choose_kernels, is_batch_invariant
from runners.runtime.quantize.int8 import quantize_rows

SETS: list[tuple[KernelSet, KernelSet]] = [
    (onednn.OneDnnBf16(), portable.PortableBf16()),
    (onednn.OneDnnInt8(), portable.PortableInt8()),
]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(autouse=True)
def inference_mode():
    with torch.inference_mode():
        yield


@given(st.integers(1, 600), st.integers(1, 5000), st.integers(1, 5))
def test_row_blocks_cover_all_rows_once_in_order(num_rows: int, row_elements: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        blocks = list(row_blocks(num_rows, row_elements))
    finally:
        torch.set_num_threads(before)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(num_rows))
    for block in blocks:
        rows = block.stop - block.start
        assert rows * row_elements < 32768 or rows == 1 or rows % threads == 0


@pytest.mark.parametrize("in_features", [64, 1024, 1536, 5000])
@pytest.mark.parametrize("rows", [1, 2, 7, 33])
def test_int8_has_the_bits_of_exact_sums(rows: int, in_features: int) -> None:
    weight, x = draw(96, in_features, seed=1), draw(rows, in_features, seed=2) * 4
    weight[0], weight[1], x[0] = 1.0, -1.0, -1.0
    (whole_x, x_scale), (whole_weight, weight_scale) = quantize_rows(x), quantize_rows(weight)
    sums = (whole_x.to(torch.int64) @ whole_weight.to(torch.int64).t()).to(torch.float32)
    expected = sums * weight_scale.t() * x_scale
    assert torch.equal(portable.Int8Linear(weight)(x), expected)
    assert torch.equal(choose_kernels("int8").linear(weight)(x), expected)


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize(("native", "plain"), SETS, ids=["bf16", "int8"])
def test_native_layers_agree_with_the_portable_ones(native: KernelSet, plain: KernelSet, rows: int) -> None:
    x, residual = draw(rows, 64, seed=3), draw(rows, 64, seed=4)
    weights = draw(192, 64, seed=5) / 8, draw(192, 64, seed=6) / 8, draw(64, 192, seed=7) / 14
    outputs = []
    for kernels in (native, plain):
        hidden, rest = x.to(kernels.hidden_dtype), residual.to(kernels.hidden_dtype)
        linear = kernels.linear(weights[0])
        outputs.append((linear(hidden), kernels.gated_ffn(*weights)(hidden, rest.clone())))
        square = kernels.linear(weights[0][:64])
        torch.testing.assert_close(square.add(hidden, rest.clone()), rest + square(hidden), rtol=0.02, atol=0.02)
    for ours, theirs in zip(*outputs, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("choice", ["auto", "torch", "native"])
@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_the_chosen_kernels_are_close_to_a_float_product(weights: str, choice: str) -> None:
    kernels = choose_kernels(weights, choice)
    assert kernels.name.startswith("torch") or choice != "torch"
    weight, x = draw(96, 256, seed=8) / 16, draw(9, 256, seed=9)
    torch.testing.assert_close(
        kernels.linear(weight)(x.to(kernels.hidden_dtype)).float(), x @ weight.t(), rtol=0.03, atol=0.05
    )


class LeakyLinear(portable.Int8Linear):
    """A product that is a little different when more rows share the call."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x) * (1 + 0.01 * (x.shape[0] > 16))


def test_rows_that_depend_on_the_batch_are_found_out() -> None:
    weight = draw(96, 64)
    exact = RowFunction(portable.Int8Linear(weight), 64, weight.numel())
    leaky = RowFunction(LeakyLinear(weight), 64, weight.numel())
    assert is_batch_invariant([exact], torch.float32)
    assert not is_batch_invariant([exact, leaky], torch.float32)


@given(st.integers(0, 2**31))
def test_quantised_rows_are_within_half_a_step(seed: int) -> None:
    x = draw(5, 40, seed=seed) * 10 ** (seed % 7 - 3)
    quantized, scale = quantize_rows(x)
    assert quantized.dtype == torch.int8
    assert ((quantized * scale - x).abs() <= scale * 0.5001).all()


def test_a_row_of_zeros_stays_zero() -> None:
    quantized, scale = quantize_rows(torch.zeros(2, 8))
    assert not quantized.any()
    assert scale.isfinite().all()


def test_rms_norm_is_its_formula() -> None:
    x, weight = draw(6, 48), draw(48, seed=1)
    expected = x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight
    torch.testing.assert_close(rms_norm(x, weight, 1e-5), expected)


def test_rope_turns_neighbouring_pairs_by_position() -> None:
    x = draw(4, 2, 8)
    positions = torch.tensor([0, 1, 17, 300])
    table = rope_table([10000.0 ** (-2 * pair / 8) for pair in range(4)], 512)
    turned = apply_rope_(x.clone(), table[positions].unsqueeze(1))
    torch.testing.assert_close(turned[0], x[0])
    for row, position in enumerate(positions.tolist()):
        for pair in range(4):
            angle = torch.tensor(position * 10000.0 ** (-2 * pair / 8))
            first, second = x[row, 1, 2 * pair], x[row, 1, 2 * pair + 1]
            torch.testing.assert_close(
                turned[row, 1, 2 * pair], first * angle.cos() - second * angle.sin(), rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_elementwise_rows_do_not_depend_on_the_batch(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        gate_up, heads = draw(301, 2 * 352), draw(301, 6, 32)
        turns = rope_table([0.5**pair for pair in range(16)], 301).unsqueeze(1)
        whole, rotated = swiglu(gate_up), apply_rope_(heads.clone(), turns)
        normed = rms_norm(gate_up, gate_up[0], 1e-5)
        wide = draw(5, 2 * 33_001)
        assert torch.equal(swiglu(wide[:1]), swiglu(wide)[:1])
        assert torch.equal(geglu(wide[:1]), geglu(wide)[:1])
        gated, capped = geglu(gate_up), soft_cap(wide.clone(), 0.5)
        assert torch.equal(soft_cap(wide[:2].clone(), 0.5), capped[:2])
        for size in (1, 2, 50, 93, 94, 200):
            assert torch.equal(geglu(gate_up[:size]), gated[:size])
            assert torch.equal(swiglu(gate_up[:size]), whole[:size])
            assert torch.equal(rms_norm(gate_up[:size], gate_up[0], 1e-5), normed[:size])
            assert torch.equal(apply_rope_(heads[:size].clone(), turns[:size]), rotated[:size])
    finally:
        torch.set_num_threads(before)


def test_swiglu_is_its_formula() -> None:
    gate, up = draw(5, 40), draw(5, 40, seed=1)
    torch.testing.assert_close(swiglu(torch.cat((gate, up), dim=1)), gate * torch.sigmoid(gate) * up)


def test_geglu_is_its_formula() -> None:
    gate, up = draw(5, 41), draw(5, 41, seed=1)
    expected = torch.nn.functional.gelu(gate, approximate="tanh") * up
    torch.testing.assert_close(geglu(torch.cat((gate, up), dim=1)), expected, rtol=1e-5, atol=1e-6)


def test_a_soft_cap_bounds_and_is_its_formula() -> None:
    x = draw(5, 41) * 40
    capped = soft_cap(x.clone(), 30.0)
    torch.testing.assert_close(capped, 30 * torch.tanh(x / 30), rtol=1e-5, atol=1e-5)
    assert float(capped.abs().max()) < 30


def test_a_float32_norm_weight_multiplies_before_rounding() -> None:
    x, weight = draw(6, 48).to(torch.bfloat16), 1 + draw(48, seed=1) * 1e-3
    normed = rms_norm(x, weight, 1e-5)
    assert normed.dtype == torch.bfloat16
    assert torch.equal(normed, rms_norm(x.float(), weight, 1e-5).to(torch.bfloat16))


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("weights", ["bf16", "int8"])
@pytest.mark.parametrize("choice", ["native", "torch"])
def test_a_bias_is_added_once(weights: str, choice: str, rows: int) -> None:
    kernels = choose_kernels(weights, choice)
    weight, bias, x = draw(96, 64) / 8, draw(96, seed=1), draw(rows, 64, seed=2).to(kernels.hidden_dtype)
    with_bias, without = kernels.linear(weight, bias), kernels.linear(weight)
    torch.testing.assert_close(with_bias(x).float(), without(x).float() + bias, rtol=0.02, atol=0.03)
    residual = draw(rows, 96, seed=3).to(kernels.hidden_dtype)
    added = with_bias.add(x, residual.clone()).float()
    torch.testing.assert_close(added, residual.float() + without(x).float() + bias, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("weights", ["bf16", "int8"])
@pytest.mark.parametrize("choice", ["native", "torch"])
def test_gelu_gates_where_it_is_asked_for(weights: str, choice: str) -> None:
    kernels = choose_kernels(weights, choice)
    gate, up, down = draw(192, 64) / 8, draw(192, 64, seed=1) / 8, draw(64, 192, seed=2) / 14
    x = draw(5, 64, seed=3).to(kernels.hidden_dtype)
    gates, ups = x.float() @ gate.t(), x.float() @ up.t()
    ours = kernels.gated_ffn(gate, up, down, "gelu_tanh")(x, torch.zeros_like(x)).float()
    gelu = (torch.nn.functional.gelu(gates, approximate="tanh") * ups) @ down.t()
    silu = (torch.nn.functional.silu(gates) * ups) @ down.t()
    assert float((ours - gelu).abs().mean()) < 0.02
    assert float((ours - silu).abs().mean()) > 0.04
