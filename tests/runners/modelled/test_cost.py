"""The bare roofline: never faster than either roof, and rising with the work."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.chips import ChipRecord, load_catalog
from runners.modelled.cost import CostModel, CostModelError
from runners.modelled.shape import ModelShape

H100 = next(chip for chip in load_catalog() if chip.chip_id == "h100-sxm")
LLAMA_3_8B = ModelShape(32, 4096, 32, 8, 128, 14_336, 128_256, 8192, tied_embeddings=False)
SMOLLM2 = ModelShape(30, 576, 9, 3, 64, 1536, 49_152, 8192, tied_embeddings=True)


@dataclass(frozen=True)
class Piece:
    """A sequence's share of a step."""

    start: int
    new: int
    sample: bool = True

    @property
    def token_ids(self) -> tuple[int, ...]:
        return (1,) * self.new


PIECES = st.builds(Piece, st.integers(0, 8000), st.integers(1, 600), st.booleans())
BATCHES = st.lists(PIECES, min_size=1, max_size=64)
SHAPES = st.sampled_from([LLAMA_3_8B, SMOLLM2])
ROUNDING = 1e-12
WEIGHTS = st.sampled_from(["bf16", "int8"])


def without(*formats: str) -> ChipRecord:
    data = H100.model_dump(mode="json")
    data["dense_tflops"].update(dict.fromkeys(formats))
    gone = {f"dense_tflops.{name}" for name in formats}
    data["sources"] = [entry for entry in data["sources"] if entry["field"] not in gone]
    return ChipRecord.model_validate(data)


@given(BATCHES, SHAPES, WEIGHTS)
def test_a_step_never_beats_either_roof(batch, shape, weights) -> None:
    cost = CostModel(H100, shape, weights)
    step = cost.step(batch)
    fastest = max(cost.linear_flops_per_s, cost.attention_flops_per_s)
    least_s = max(
        (step.linear_flops + step.attention_flops) / fastest,
        (step.weight_bytes + step.kv_bytes) / H100.memory.bandwidth_bytes_per_s,
    )
    assert step.duration_s >= least_s * (1 - ROUNDING)
    assert step.duration_s == pytest.approx(max(step.compute_s, step.memory_s))


@given(BATCHES, PIECES, SHAPES, WEIGHTS)
def test_one_more_sequence_never_makes_a_step_shorter(batch, piece, shape, weights) -> None:
    cost = CostModel(H100, shape, weights)
    assert cost.step([*batch, piece]).duration_s >= cost.step(batch).duration_s


@given(BATCHES, st.integers(1, 4000), SHAPES, WEIGHTS)
def test_longer_context_never_makes_a_step_shorter(batch, more, shape, weights) -> None:
    cost = CostModel(H100, shape, weights)
    longer = [Piece(piece.start + more, piece.new, piece.sample) for piece in batch]
    assert cost.step(longer).duration_s >= cost.step(batch).duration_s


@given(BATCHES, SHAPES)
def test_int8_is_never_slower_than_bf16(batch, shape) -> None:
    bf16, int8 = CostModel(H100, shape, "bf16").step(batch), CostModel(H100, shape, "int8").step(batch)
    assert int8.duration_s <= bf16.duration_s
    assert (int8.linear_flops, int8.attention_flops) == (bf16.linear_flops, bf16.attention_flops)


@given(BATCHES, SHAPES)
def test_without_int8_units_the_bytes_shrink_and_the_arithmetic_stays(batch, shape) -> None:
    bf16, int8 = CostModel(H100, shape, "bf16").step(batch), CostModel(without("int8"), shape, "int8").step(batch)
    assert int8.compute_s == bf16.compute_s
    assert int8.weight_bytes < bf16.weight_bytes
    assert int8.kv_bytes == bf16.kv_bytes


def test_a_decode_of_llama_3_8b_on_an_h100_takes_as_long_as_its_weights() -> None:
    step = CostModel(H100, LLAMA_3_8B, "bf16").step([Piece(0, 1)])
    # 2 bytes x (body 6,979,321,856 + head 525,336,576 + norms 266,240 + one embedding row).
    assert step.weight_bytes == 2 * (6_979_321_856 + 525_336_576 + 266_240 + 4096)
    # The token's own keys and values are written, then read.
    assert step.kv_bytes == 2 * 131_072
    assert step.bound == "bandwidth"
    assert step.duration_s == pytest.approx((step.weight_bytes + 2 * 131_072) / 3.35e12)


def test_a_long_prompt_of_llama_3_8b_on_an_h100_is_bound_by_compute() -> None:
    step = CostModel(H100, LLAMA_3_8B, "bf16").step([Piece(0, 2048)])
    linear = 2 * (6_979_321_856 * 2048 + 525_336_576)
    attention = 4 * 4096 * 32 * 2048 * 2049 // 2
    assert step.bound == "compute"
    assert step.duration_s == pytest.approx((linear + attention) / 989e12)


def test_the_head_is_read_only_when_something_is_sampled() -> None:
    cost = CostModel(H100, LLAMA_3_8B, "bf16")
    silent, sampled = cost.step([Piece(0, 64, sample=False)]), cost.step([Piece(0, 64, sample=True)])
    assert sampled.weight_bytes - silent.weight_bytes == 2 * 525_336_576


def test_a_chip_without_units_for_the_weights_is_refused_by_field() -> None:
    narrow = without("bf16", "tf32", "fp32")
    with pytest.raises(CostModelError, match=r"h100-sxm: dense_tflops has no units for bf16 weights, only fp64"):
        CostModel(narrow, SMOLLM2, "bf16")
    assert CostModel(narrow, SMOLLM2, "int8").linear_flops_per_s == 1979e12
