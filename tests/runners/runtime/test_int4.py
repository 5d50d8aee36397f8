"""int4 as it would hold weights: its grid, its error, and the kernels that compute its numbers in bf16."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.runtime.kernels.selfcheck import choose_kernels
from runners.runtime.quantize.int4 import GROUP, LEVELS, round_to_int4


def draw(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 100), st.integers(0, 10**6))
def test_a_weight_moves_by_at_most_half_a_step_of_its_group(rows: int, columns: int, seed: int) -> None:
    weight = draw(rows, columns, seed)
    rounded = round_to_int4(weight)
    assert rounded.shape == weight.shape
    for start in range(0, columns, GROUP):
        group, found = weight[:, start : start + GROUP], rounded[:, start : start + GROUP]
        step = (group.amax(dim=1) - group.amin(dim=1)) / LEVELS
        # Float16 holds the least value and the step to one part in 2,048.
        assert bool(((found - group).abs().amax(dim=1) <= step / 2 + 0.01 * group.abs().amax(dim=1) + 1e-6).all())


def test_a_group_takes_at_most_sixteen_values() -> None:
    rounded = round_to_int4(draw(8, GROUP * 4))
    assert all(len(group.unique()) <= LEVELS + 1 for group in rounded.reshape(-1, GROUP))


def test_rounding_is_that_of_ggmls_q4_1() -> None:
    weight = draw(16, GROUP * 3)
    kind = gguf.GGMLQuantizationType.Q4_1
    theirs = gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), kind), kind)
    # Ties and float16's rounding of a step may send a value to the next level.
    far = np.abs(round_to_int4(weight).numpy() - theirs) > 0.01
    assert far.mean() < 0.02


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
def test_equal_weights_stay_as_they_are(value: float) -> None:
    weight = torch.full((2, 40), value)
    assert torch.equal(round_to_int4(weight), weight)


def test_its_kernels_compute_in_bf16_what_rounded_weights_give() -> None:
    int4, bf16 = choose_kernels("int4", "torch"), choose_kernels("bf16", "torch")
    weight, x = draw(64, 96) / 8, draw(5, 96, 1).to(torch.bfloat16)
    assert int4.emulated and not bf16.emulated and int4.weights == "int4"
    assert torch.equal(int4.linear(weight)(x), bf16.linear(round_to_int4(weight))(x))
    assert not torch.equal(int4.linear(weight)(x), bf16.linear(weight)(x))
