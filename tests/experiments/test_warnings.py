"""What a plan gives pause to before it is submitted, each warning at its field."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import document

from experiments.estimate import Estimate
from experiments.warnings import MatchingNode, Warning, find_warnings
from runners.matrix import plan_experiment
from runners.validity import THRESHOLDS

MODEL = "smollm2-135m-instruct"
HOLDER = MatchingNode("local", "online", held=frozenset({MODEL}))


def warned(*nodes: MatchingNode, expected: Estimate | None = None, queued: int = 0, **changes: Any) -> list[Warning]:
    base = document(repeats=3, **changes) if "repeats" not in changes else document(**changes)
    return find_warnings(plan_experiment(base), nodes or (HOLDER,), {MODEL: 98_000_000}, expected, queued)


def messages(found: list[Warning], field: str) -> str:
    return " ".join(one.message for one in found if one.field == field)


def workload(**changes: Any) -> dict[str, Any]:
    return {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 2}, "num_requests": 64} | changes


def test_a_sound_plan_on_a_free_node_gives_no_warning():
    assert warned(workload=workload()) == []


@pytest.mark.parametrize(
    ("state", "said"),
    [("lost", "is lost"), ("draining", "is draining"), ("registered", "has not joined yet")],
)
def test_nodes_that_are_not_up_are_named_with_what_keeps_them(state, said):
    found = messages(warned(MatchingNode("far", state, held=HOLDER.held), workload=workload()), "nodes")
    assert "no node that matches is up" in found and f"far {said}" in found


def test_busy_nodes_say_how_much_is_queued_before():
    found = warned(MatchingNode("local", "busy", held=HOLDER.held), queued=7, workload=workload())
    assert messages(found, "nodes") == "no node that matches is free: local is busy, 7 runs are queued before these"


def test_a_node_with_a_fault_is_not_up_whatever_its_state():
    broken = MatchingNode("local", "online", held=HOLDER.held, fault="its disk is full")
    found = messages(warned(broken, workload=workload()), "nodes")
    assert found.startswith("no node that matches is up: local can take no run (its disk is full)")


def test_one_free_node_is_enough():
    assert warned(HOLDER, MatchingNode("far", "lost", held=HOLDER.held), workload=workload()) == []


def test_a_model_that_is_not_held_says_who_fetches_it_and_how_much():
    found = messages(warned(MatchingNode("new", "online"), HOLDER, workload=workload()), "model")
    assert found.startswith("new does not hold smollm2") and "98 MB" in found


def test_a_modelled_node_needs_no_model():
    assert warned(MatchingNode("h100", "online", modelled=True), repeats=1, workload=workload()) == []


def test_too_few_requests_for_a_valid_run():
    fewest = int(THRESHOLDS["too_few_requests"])
    assert "too_few_requests" in messages(warned(workload=workload(num_requests=fewest - 1)), "workload.num_requests")
    assert "too_few_requests" not in messages(warned(workload=workload(num_requests=fewest)), "workload.num_requests")


def test_users_beyond_the_batch_are_counted_by_trials():
    busy = workload(arrival={"kind": "closed", "max_concurrency": 8})
    found = messages(warned(workload=busy, matrix={"engine.max_num_seqs": [1, 8]}), "engine.max_num_seqs")
    assert found.startswith("max_num_seqs 1 is below 8 users at once in 1 of 2 trials")
    assert messages(warned(workload=busy, engine={"max_num_seqs": 8}), "engine.max_num_seqs") == ""


def test_too_few_requests_for_a_steady_state():
    found = warned(workload=workload(arrival={"kind": "closed", "max_concurrency": 48}), engine={"max_num_seqs": 64})
    assert "steady state" in messages(found, "workload.num_requests")


@pytest.mark.parametrize(("requests", "warns"), [(661, True), (662, False)])
def test_a_percentile_of_the_objective_says_how_many_requests_it_needs(requests, warns):
    found = messages(warned(workload=workload(num_requests=requests), slo={"ttft_s": {"p99": 1.0}}), "slo.ttft_s")
    assert ("662 requests" in found) is warns


def test_one_repeat_gives_no_interval():
    assert "no interval" in messages(warned(repeats=1, workload=workload()), "repeats")


def test_an_axis_of_one_value_compares_nothing():
    found = warned(workload=workload(), matrix={"engine.weights": ["bf16"]})
    assert messages(found, "matrix.engine.weights")


@pytest.mark.parametrize(("high", "warns"), [(7201.0, True), (7200.0, False)])
def test_an_estimate_beyond_the_budget(high, warns):
    found = warned(workload=workload(), expected=Estimate(100.0, 50.0, high, "past runs"))
    assert bool(messages(found, "budget.max_seconds")) is warns
