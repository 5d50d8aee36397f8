"""What bound each phase: seconds added up by tokens, room that lacked, and time in the queue."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.events import Step
from runners.modelled.phases import PhaseSums, phase_facts
from runners.modelled.step_model import StepParts

SECONDS = st.floats(0, 10, allow_nan=False)
PARTS = st.builds(StepParts, SECONDS, SECONDS, SECONDS, SECONDS)


def step(**fields: Any) -> Step:
    plain: dict[str, Any] = {
        "index": 1, "start_s": 0.0, "duration_s": 1.0, "prefill_tokens": 0, "decode_tokens": 0, "running": 1,
        "waiting": 0, "kv_used_blocks": 1, "kv_cached_blocks": 0, "kv_free_blocks": 9, "kv_used_slots": 1,
    }  # fmt: skip
    return Step(**plain | fields)


def sums(pool: str | None = None) -> PhaseSums:
    return PhaseSums(max_num_seqs=4, max_num_batched_tokens=100, pool=pool)


@given(st.lists(st.tuples(PARTS, st.integers(0, 99), st.integers(0, 9)), max_size=12))
def test_every_second_of_a_step_with_tokens_is_counted_once(steps: list[tuple[StepParts, int, int]]) -> None:
    found = sums()
    for parts, prefill, decode in steps:
        found.add(parts, step(prefill_tokens=prefill, decode_tokens=decode))
    told = phase_facts([found])
    spent = sum(parts.total_s for parts, prefill, decode in steps if prefill + decode)
    assert sum(phase["seconds"] for phase in told.values()) == pytest.approx(spent)


def test_a_step_of_both_kinds_counts_by_its_tokens() -> None:
    found = sums()
    found.add(StepParts(4.0, 2.0, 1.0, 1.0), step(prefill_tokens=30, decode_tokens=10))
    told = phase_facts([found])
    assert told["prefill"]["seconds"] == 6.0 and told["decode"]["seconds"] == 2.0
    assert told["prefill"]["compute_s"] == 3.0 and told["decode"]["link_s"] == 0.25


def test_a_phase_is_bound_by_what_took_most_of_it() -> None:
    found = sums()
    found.add(StepParts(5.0, 1.0, 0.0, 0.0), step(prefill_tokens=50))
    found.add(StepParts(0.0, 1.0, 0.0, 4.0), step(decode_tokens=4))
    found.add(StepParts(0.0, 9.0, 0.0, 4.0), step(decode_tokens=4))
    told = phase_facts([found])
    assert (told["prefill"]["bound"], told["decode"]["bound"]) == ("compute", "bandwidth")


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        ({"waiting": 3}, True),
        ({"waiting": 0}, False),
        ({"waiting": 3, "running": 4}, False),
        ({"waiting": 3, "prefill_tokens": 99}, False),
        ({"waiting": 3, "prefill_tokens": 19, "draft_tokens": 80}, False),
        ({"preempted": 1}, True),
    ],
)
def test_room_lacks_where_somebody_waits_though_seats_and_budget_are_left(fields: dict[str, int], lacks: bool) -> None:
    found = sums()
    found.add(StepParts(0.0, 1.0, 0.0, 0.0), step(**{"decode_tokens": 1} | fields))
    assert phase_facts([found])["decode"]["capacity"] is lacks


def test_a_prompt_that_waits_for_a_whole_step_does_not_wait_for_room() -> None:
    found = PhaseSums(max_num_seqs=4, max_num_batched_tokens=100, chunked_prefill=False)
    found.add(StepParts(0.0, 1.0, 0.0, 0.0), step(decode_tokens=1, waiting=3))
    assert phase_facts([found])["decode"]["capacity"] is False


def test_pools_add_up_under_the_name_of_the_one_that_did_most() -> None:
    prefill, decode = sums("prefill"), sums("decode")
    prefill.add(StepParts(3.0, 0.0, 0.0, 0.0), step(prefill_tokens=9))
    decode.add(StepParts(1.0, 0.0, 0.0, 0.0), step(prefill_tokens=9, preempted=1))
    decode.add(StepParts(0.0, 2.0, 0.0, 0.0), step(decode_tokens=1))
    prefill.wait("prefill", 3.0, 4.0)
    prefill.wait("prefill", 0.0, 4.0)
    told = phase_facts([prefill, decode])
    assert told["prefill"]["pool"] == "prefill" and told["prefill"]["seconds"] == 4.0
    assert told["decode"]["pool"] == "decode"
    assert told["prefill"]["queue_share"] == 0.375 and told["decode"]["queue_share"] is None


def test_a_run_without_steps_has_no_phases() -> None:
    assert phase_facts([sums()]) == {}
