"""What a step costs when it is spread over chips: the same from sums as from shares, bounded, and as the cuts say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cost import BATCHES, LLAMA_3_8B, Piece
from test_topology import CHIPS, shape_of

from runners.modelled.batch import BatchSums
from runners.modelled.cost import CostModel
from runners.modelled.links import Link
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.step_model import DecodeSums

DEEPSEEK, GPT_OSS = shape_of("deepseek-v3"), shape_of("gpt-oss-120b")
LAYOUTS = [
    (LLAMA_3_8B, Parallel()), (LLAMA_3_8B, Parallel(tp=8)), (LLAMA_3_8B, Parallel(pp=4)),
    (LLAMA_3_8B, Parallel(tp=2, dp=3, pp=2)), (DEEPSEEK, Parallel(tp=8, pp=2)),
    (DEEPSEEK, Parallel(dp=16, ep=16)), (GPT_OSS, Parallel(tp=4, ep=4)), (GPT_OSS, Parallel(tp=2, dp=2, ep=4)),
]  # fmt: skip


def model(
    shape: ModelShape, parallel: Parallel, weights: str = "fp8", kv_cache: str = "bf16", **links: Link
) -> CostModel:
    return CostModel(CHIPS["h200-sxm"], shape, weights, "vLLM", parallel=parallel, kv_cache=kv_cache, **links)


MODELS = [model(shape, parallel, kv_cache=kv) for shape, parallel in LAYOUTS for kv in ("bf16", "fp8")]


@given(st.lists(st.integers(0, 8000), min_size=1, max_size=80), st.sampled_from(MODELS))
@settings(max_examples=80, deadline=None)
def test_decodes_cost_the_same_from_their_sums_to_the_bit_in_any_layout(starts: list[int], cost: CostModel) -> None:
    window = cost.shape.sliding_window if cost.shape.sliding_layers else 0
    sums = next(DecodeSums.each(starts, window))
    assert cost.decode_step(sums) == cost.step([Piece(start, 1) for start in starts])


@given(BATCHES, st.sampled_from(MODELS))
@settings(max_examples=80, deadline=None)
def test_no_layout_is_faster_than_all_its_chips_at_their_peaks(batch: list[Piece], cost: CostModel) -> None:
    step = cost.step(batch)
    assert step.duration_s >= step.roofline_s > 0
    assert step.parts.total_s == pytest.approx(step.duration_s)
    alone = CostModel(cost.chip, cost.shape, "fp8").step(batch)
    assert step.compute_s * cost.chips == pytest.approx(alone.compute_s)
    assert step.energy_j is not None and cost.idle_w is not None
    most_w = cost.chips * 700.0
    assert cost.idle_w * step.duration_s * 0.999 <= step.energy_j <= most_w * step.duration_s * 1.001


def test_a_stage_takes_its_share_of_the_time_and_a_token_passes_all_of_them() -> None:
    one, four = model(LLAMA_3_8B, Parallel()), model(LLAMA_3_8B, Parallel(pp=4))
    alone = DecodeSums(1, 1000, 0)
    # One sequence passes stage after stage: nothing is gained but the memory, and hops are lost.
    steps = [cost.decode_step(alone) for cost in (one, four)]
    assert steps[1].duration_s == pytest.approx(steps[0].duration_s + steps[1].link_s, rel=1e-4)
    # Many are cut into micro-batches, which keep all stages busy.
    many = DecodeSums(512, 512 * 2000, 0)
    whole, cut = one.decode_step(many), four.decode_step(many)
    moving = [step.parts.compute_s + step.parts.bandwidth_s for step in (whole, cut)]
    assert 2 < moving[0] / moving[1] < 4 and cut.duration_s < whole.duration_s


def test_hops_cost_what_the_link_between_stages_takes() -> None:
    near, far = (
        model(LLAMA_3_8B, Parallel(pp=4), stage_link=Link(5e10, latency_s, "test")) for latency_s in (0.0, 1e-3)
    )
    sums = DecodeSums(8, 8000, 0)
    assert far.decode_step(sums).link_s - near.decode_step(sums).link_s == pytest.approx(3e-3)
    assert near.decode_step(sums).link_s == pytest.approx(3 * 2 * 4096 * 2 / 5e10)


def test_the_latency_of_a_stated_link_is_paid_for_every_collective() -> None:
    sums = DecodeSums(8, 8000, 0)
    slow, fast = (model(LLAMA_3_8B, Parallel(tp=8), link=Link(4.5e11, latency_s, "test")) for latency_s in (1e-4, 1e-5))
    assert slow.decode_step(sums).link_s - fast.decode_step(sums).link_s == pytest.approx(
        64 * 9e-5 * slow.tuning.scope)  # type: ignore[union-attr]  # fmt: skip


def test_a_collective_over_more_chips_than_were_calibrated_takes_more_rounds() -> None:
    sums, link = DecodeSums(8, 8000, 0), Link(1e15, 1e-5, "test")
    times = [model(LLAMA_3_8B, Parallel(tp=tp), link=link).decode_step(sums).link_s for tp in (4, 8, 32)]
    assert times[0] == pytest.approx(times[1], rel=0.01) and times[2] == pytest.approx(times[1] * 5 / 3, rel=0.01)


def test_groups_take_whole_sequences_and_a_step_waits_for_the_fullest() -> None:
    one, four = model(LLAMA_3_8B, Parallel()), model(LLAMA_3_8B, Parallel(dp=4))
    for number, fullest in ((4, 1), (5, 2), (64, 16)):
        whole = four.cost_of(BatchSums(number, number, number, 10**9 * number, 10**8 * number))
        part = one.cost_of(BatchSums(fullest, fullest, fullest, 10**9 * fullest, 10**8 * fullest))
        assert whole.duration_s == pytest.approx(part.duration_s)


def test_a_narrow_cache_moves_half_and_computes_as_much() -> None:
    wide, narrow = (model(LLAMA_3_8B, Parallel(), kv_cache=kv).step([Piece(4000, 1)] * 32) for kv in ("bf16", "fp8"))
    assert wide.kv_bytes == 2 * narrow.kv_bytes and wide.attention_flops == narrow.attention_flops
    assert narrow.duration_s < wide.duration_s


def test_a_format_without_units_is_unpacked_first() -> None:
    chip, batch = CHIPS["a100-80g-sxm"], [Piece(0, 512)] * 4
    narrow, wide = (CostModel(chip, LLAMA_3_8B, weights, "vLLM").step(batch) for weights in ("nvfp4", "bf16"))
    assert narrow.weight_bytes < wide.weight_bytes / 2.5
    assert narrow.compute_s == wide.compute_s and narrow.duration_s > 0.9 * wide.duration_s
    few = [CostModel(chip, LLAMA_3_8B, weights, "vLLM").step([Piece(100, 1)]) for weights in ("nvfp4", "bf16")]
    assert few[0].duration_s < few[1].duration_s


def test_copies_of_a_cache_that_can_not_be_split_are_read_by_every_chip() -> None:
    shape = replace(LLAMA_3_8B, kv_heads=1)
    split = {tp: model(shape, Parallel(tp=tp)).decode_step(DecodeSums(64, 64 * 8000, 0)) for tp in (1, 8)}
    grouped = {tp: model(LLAMA_3_8B, Parallel(tp=tp)).decode_step(DecodeSums(64, 64 * 1000, 0)) for tp in (1, 8)}
    assert split[1].kv_bytes == pytest.approx(grouped[1].kv_bytes, rel=0.01)
    assert split[8].duration_s > grouped[8].duration_s
