"""Attention on some chips, MLPs or experts on others: what a step of both in turn takes, holds and refuses."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cost import Piece
from test_topology import CHIPS, disaggregated, plan, refusal, shape_of

from runners.modelled.batch import BatchSums
from runners.modelled.capacity import USABLE_SHARE, DoesNotFit
from runners.modelled.chip_group import ChipGroup
from runners.modelled.layouts import TopologyError
from runners.modelled.links import TRANSFER_SHARE, Link
from runners.modelled.parallel import ONE_CHIP, Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.split import SplitCostModel, attention_half, ffn_half
from runners.modelled.step_model import DecodeSums
from runners.modelled.system_plan import PoolPlan

LLAMA, DEEPSEEK = shape_of("llama-3-8b"), shape_of("deepseek-v3")
FAST = Link(1e15, 0.0, "test")


def made(shape: ModelShape, micro_batches: int, link: Link = FAST, ffn: Parallel = ONE_CHIP) -> SplitCostModel:
    chip = CHIPS["h200-sxm"]
    sides = [
        ChipGroup(
            chip,
            half,
            "fp8",
            "vLLM",
            parallel=parallel,
            micro_batches=micro_batches,
            collectives=0 if parallel.ep > 1 else 1,
        )
        for half, parallel in ((attention_half(shape), Parallel()), (ffn_half(shape), ffn))
    ]
    return SplitCostModel(shape, *sides, link, micro_batches)


def pool_of(micro_batches: int = 3, **pools: Any) -> PoolPlan:
    asked = {"attention": {"chip": "h200-sxm"}, "ffn": {"chip": "h200-sxm"}, "micro_batches": micro_batches} | pools
    (pool,) = plan("any", "llama-3-70b", disaggregate=disaggregated("attention_ffn", **asked)).pools
    return pool


def in_turn(stages: list[list[float]], batches: int) -> float:
    """The last end of `batches` micro-batches through those stages in order, each stage one at a time; a stage is
    [which machine, seconds]. Played through, without a formula."""
    free: dict[float, float] = {}
    ends = [0.0] * batches
    for (machine, seconds), number in itertools.product(stages, range(batches)):
        begins = max(ends[number], free.get(machine, 0.0))
        ends[number] = free[machine] = begins + seconds
    return max(ends)


@pytest.mark.parametrize("batches", [1, 2, 3, 5])
@pytest.mark.parametrize("latency_s", [0.0, 20e-6, 2e-3])
def test_a_step_takes_as_long_as_micro_batches_played_through_all_layers(batches: int, latency_s: float) -> None:
    cost = made(LLAMA, batches, Link(4e11, latency_s, "test"))
    sums = DecodeSums(120, 120 * 900, 0)
    batch = cost.attention.counter.count_decodes(sums)
    task = cost.attention.task_of(batch)
    other = cost.ffn.task_of(replace(batch, num_sampled=0, attention_flops=0, kv_elements=0))
    layers = LLAMA.layers
    attention_s = cost.attention.time(task).total_s / layers
    ffn_s = cost.ffn.time(other).total_s / layers
    crossing_s = latency_s + 120 / batches * 4096 * 2 / (4e11 * TRANSFER_SHARE)
    stages = [[0.0, attention_s], [1.0, crossing_s], [2.0, ffn_s], [3.0, crossing_s]] * layers
    overhead_s = cost._step_s
    played_s = in_turn(stages, batches) + overhead_s
    step = cost.decode_step(sums)
    assert step.duration_s == pytest.approx(played_s, rel=0.02)
    assert step.parts.total_s == pytest.approx(step.duration_s)


def test_the_halves_hold_what_the_whole_does() -> None:
    for shape in (LLAMA, DEEPSEEK, shape_of("gpt-oss-120b"), shape_of("qwen3-30b-a3b")):
        one, other = attention_half(shape), ffn_half(shape)
        assert one.body_weights + other.body_weights == shape.body_weights
        assert one.head_weights + other.head_weights == shape.head_weights
        assert one.active_weights + other.active_weights == shape.active_weights
        assert other.kv_elements_held(1000) == 0


def test_a_slow_link_is_what_binds_and_its_share_is_told() -> None:
    sums = DecodeSums(64, 64 * 1000, 0)
    fast, slow = (made(LLAMA, 3, Link(4e11, latency_s, "test")).decode_step(sums) for latency_s in (1e-6, 1e-3))
    assert fast.bound != "link" and slow.bound == "link"
    assert slow.link_s > 0.8 * slow.duration_s > fast.duration_s


def test_micro_batches_hide_the_link_where_it_is_slow_and_cost_overhead_where_it_is_not() -> None:
    sums = DecodeSums(512, 512 * 2000, 0)
    far = [made(LLAMA, number, Link(4e11, 1e-3, "test")).decode_step(sums).duration_s for number in (1, 3)]
    near = [made(LLAMA, number).decode_step(DecodeSums(4, 400, 0)).duration_s for number in (1, 3)]
    assert far[1] < far[0] + 1e-3 and near[1] > near[0]


@given(st.lists(st.integers(0, 6000), min_size=1, max_size=60), st.sampled_from([1, 2, 3, 8]))
@settings(max_examples=30, deadline=None)
def test_decodes_cost_the_same_from_their_sums_to_the_bit(starts: list[int], micro_batches: int) -> None:
    for shape, ffn in ((LLAMA, Parallel()), (DEEPSEEK, Parallel(tp=8, ep=8))):
        cost = made(shape, micro_batches, ffn=ffn)
        sums = DecodeSums(len(starts), sum(starts) + len(starts), 0)
        step = cost.decode_step(sums)
        assert step == cost.step([Piece(start, 1) for start in starts])
        assert step.duration_s >= step.roofline_s


def test_experts_on_chips_of_their_own_send_a_token_to_each_of_them() -> None:
    split, shared = (made(DEEPSEEK, 1, Link(4e11, 0.0, "test"), Parallel(tp=8, ep=ep)) for ep in (8, 1))
    tokens = DecodeSums(256, 256 * 100, 0)
    crossing_s = 256 * 7168 * 2 / (4e11 * TRANSFER_SHARE)
    collective_s = shared.ffn.time(shared.ffn.task_of(BatchSums(256, 0, 256, 0, 0))).link_s
    sent_s = [split.decode_step(tokens).link_s, shared.decode_step(tokens).link_s - collective_s]
    # Out and back once for each of a token's 8 experts in 58 of 61 layers, or only once.
    assert sent_s == pytest.approx([2 * crossing_s * (61 + 7 * 58), 2 * crossing_s * 61], rel=0.01)


def test_a_plan_places_attention_and_cache_here_and_the_rest_there() -> None:
    pool = pool_of(ffn={"chip": "h100-sxm", "count": 4})
    assert dict(pool.chips_of_engine) == {"h200-sxm": 1, "h100-sxm": 4} and pool.chips_per_engine == 5
    cost = pool.cost
    assert isinstance(cost, SplitCostModel)
    usable = 141e9 * USABLE_SHARE
    cache = pool.kv.num_blocks * pool.kv.block_bytes
    assert cost.attention.resident_bytes + cache <= usable
    assert 4 * cost.ffn.resident_bytes >= 2 * cost.ffn.shape.body_weights
    assert pool.facts()["parallel"] == {"tp": 1, "dp": 1, "pp": 1, "ep": 1, "ffn": {"tp": 4, "dp": 1, "pp": 1, "ep": 1}}
    assert cost.idle_w is not None and pool.cost.facts()["calibration"] == "uncalibrated"


def test_more_attention_chips_are_more_groups_with_more_cache() -> None:
    one, four = pool_of(), pool_of(attention={"chip": "h200-sxm", "count": 4})
    assert four.parallel == Parallel(dp=4) and four.kv.num_blocks == 4 * one.kv.num_blocks


def test_a_system_of_unlike_chips_says_in_words_what_it_is() -> None:
    pools = {"attention": {"chip": "rubin-vr200", "count": 8, "tensor_parallel": 1},
             "ffn": {"chip": "groq3-lpu", "count": 2048, "expert_parallel": 256}}  # fmt: skip
    found = plan("any", "deepseek-v3", engine={"weights": "fp8"}, disaggregate=disaggregated("attention_ffn", **pools))
    assert found.text == "1 x 8 rubin-vr200 + 2048 groq3-lpu (dp 8 | tp 2048, ep 256)"
    assert found.chip_counts == {"rubin-vr200": 8, "groq3-lpu": 2048} and found.chips == 2056
    assert found.facts()["link"]["source"].startswith("assumed: a network")


def test_sides_of_one_kind_in_one_domain_speak_over_its_link_and_further_ones_over_a_network() -> None:
    cost = pool_of().cost
    assert isinstance(cost, SplitCostModel)
    assert (cost.between.bytes_per_s, cost.between.latency_s) == (450e9, 1e-5)
    far = pool_of(attention={"chip": "h200-sxm", "count": 8}).cost
    assert isinstance(far, SplitCostModel) and far.between.source.startswith("assumed: a network")


def test_experts_that_do_not_fit_their_chips_are_refused_with_the_bytes() -> None:
    pools = {"attention": {"chip": "rubin-vr200"}, "ffn": {"chip": "groq3-lpu", "count": 256, "expert_parallel": 256}}
    error = refusal(
        "any", "deepseek-v3", engine={"weights": "fp8"}, disaggregate=disaggregated("attention_ffn", **pools)
    )
    assert isinstance(error, DoesNotFit) and "450,000,000 bytes" in error.allowed
    assert "KV cache" not in error.message


def test_chips_that_split_experts_beyond_their_domain_are_refused() -> None:
    pools = {"attention": {"chip": "rubin-vr200"}, "ffn": {"chip": "groq3-lpu", "tensor_parallel": 2048}}
    error = refusal(
        "any", "deepseek-v3", engine={"weights": "fp8"}, disaggregate=disaggregated("attention_ffn", **pools)
    )
    assert isinstance(error, TopologyError) and error.field == "placement.disaggregate.ffn.tensor_parallel"
    assert "joins 256" in error.message
