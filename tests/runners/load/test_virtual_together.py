"""Whatever the system and its load: steps taken together give the events of steps taken one by one, to the bit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from test_virtual_properties import CLOSED, OPEN
from virtual_systems import Played, play_system, pools, system_spec

ROUTERS = st.sampled_from(["round_robin", "least_loaded", "kv_aware"])
LINKS = st.builds(
    lambda bytes_per_s, latency_s: {"bytes_per_s": bytes_per_s, "latency_s": latency_s},
    st.sampled_from([1e8, 1e12]),
    st.sampled_from([0.0, 0.01]),
)
ENDS = st.one_of(
    st.builds(lambda count: {"num_requests": count}, st.integers(1, 25)),
    st.builds(lambda duration_s: {"duration_s": duration_s}, st.sampled_from([0.001, 0.005])),
)


@st.composite
def placements(draw: st.DrawFn) -> dict[str, Any]:
    router = {"router": {"policy": draw(ROUTERS)}}
    if draw(st.booleans()):
        return {"replicas": draw(st.integers(1, 3)), **router}
    sizes = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return pools(*sizes, link=draw(LINKS), stream=draw(st.sampled_from(["layer", "whole"]))) | router


KINDS = st.sampled_from(
    [
        {"kind": "text"},
        {"kind": "conversation", "conversation": {"turns": {"dist": "uniform", "min_count": 1, "max_count": 4}}},
        {"kind": "agent", "agent": {"fan_out": 2, "tool_time_s": {"dist": "exponential", "mean_s": 0.002}}},
    ]
)
CLASSES = st.sampled_from(
    [(), ({"name": "chat", "share": 0.5, "priority": -1}, {"name": "batch", "share": 0.5, "priority": 1})]
)
THINKING = st.sampled_from([None, None, {"factor": 1.5}])


@st.composite
def loads(draw: st.DrawFn) -> dict[str, Any]:
    shared = st.none() | st.builds(lambda groups: {"groups": groups, "prefix_tokens": 32}, st.integers(1, 3))
    return {
        "arrival": draw(st.one_of(CLOSED, OPEN)),
        "warmup": {"num_requests": draw(st.integers(0, 3))},
        "input_len": {"dist": "uniform", "min_tokens": 1, "max_tokens": 60},
        "output_len": {"dist": "uniform", "min_tokens": 1, "max_tokens": draw(st.sampled_from([3, 120]))},
        "shared_prefix": draw(shared),
        "classes": draw(CLASSES),
        "thinking": draw(THINKING),
        **draw(KINDS),
        **draw(ENDS),
    }


@st.composite
def engines(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "max_num_seqs": draw(st.integers(1, 8)),
        "max_num_batched_tokens": draw(st.integers(16, 200)),
        "block_size": draw(st.sampled_from([8, 32])),
        "prefix_cache": draw(st.booleans()),
        "scheduler": {"policy": draw(st.sampled_from(["fcfs", "priority"]))},
        "prefix_tiers": draw(st.sampled_from([{}, {"host": {"capacity_bytes": 1e9, "bytes_per_s": 1e10}}])),
        "speculation": draw(st.sampled_from([{}, {}, {"kind": "ngram", "max_draft": 3, "acceptance": 0.7}])),
    }


def both(placement: dict[str, Any], seed: int, engine: dict[str, Any], load: dict[str, Any], slots: int) -> Played:
    """Plays it both ways, holds them against each other, and gives one."""
    spec = system_spec(placement, seed, engine, **load)
    num_blocks = dict.fromkeys(("serve", "prefill", "decode"), slots // spec.engine.block_size)
    alone, together = (play_system(spec, coalesce, num_blocks) for coalesce in (False, True))
    for one, other in zip(alone.events, together.events, strict=True):
        assert one == other
    assert alone.result == together.result
    assert alone.facts == together.facts
    return together


@settings(max_examples=30, deadline=None)
@given(placements(), st.integers(0, 2**32), engines(), loads(), st.sampled_from([216, 256, 4096]))
def test_whatever_the_system_and_its_load(
    placement: dict[str, Any], seed: int, engine: dict[str, Any], load: dict[str, Any], slots: int
) -> None:
    run = both(placement, seed, engine, load, slots)
    event(f"preempted: {any(step.preempted for step in run.steps)}")
    event(f"drafts: {any(step.draft_tokens for step in run.steps)}, loads: {any(s.loaded_tokens for s in run.steps)}")
    event(f"waited: {any(step.waiting for step in run.steps)}, hits: {any(step.cached_tokens for step in run.steps)}")


@pytest.mark.parametrize("placement", [{}, {"replicas": 2}, pools(1, 2)])
def test_long_answers_of_many_users_over_many_ticks(placement: dict[str, Any]) -> None:
    load = {
        "arrival": {"kind": "closed", "max_concurrency": 16},
        "output_len": {"dist": "uniform", "min_tokens": 100, "max_tokens": 400},
        "num_requests": 40,
    }
    run = both(placement, 7, {}, load, 8192)
    assert len(run.samples) > 5
    assert any(sample.itl_p95_s and sample.itl_p50_s and sample.itl_p95_s > sample.itl_p50_s for sample in run.samples)
