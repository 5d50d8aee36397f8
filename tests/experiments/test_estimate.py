"""How long a plan would take by past runs: scaled, spread over nodes, by those most like it, or not told at all."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import document

from experiments.estimate import PastRun, Settings, estimate
from runners.matrix import plan_experiment
from runners.spec import PlacementSpec, SpeculationSpec

MODEL = "smollm2-135m-instruct"
CLOSED_2 = ("closed", 2.0)


def settings(weights: str = "bf16", seqs: int = 16, **placement: Any) -> Settings:
    return Settings(weights, seqs, CLOSED_2, (PlacementSpec(**placement), SpeculationSpec()))


def past(**changes: Any) -> PastRun:
    # 4 requests of 32 tokens out and 128 in: the document's own workload.
    fields: dict[str, Any] = {
        "model": MODEL, "modelled": False, "node": "local", "settings": settings(),
        "tokens": 4 * (32 + 128 / 16), "window_s": 8.0, "whole_s": 10.0,
    }  # fmt: skip
    return PastRun(**fields | changes)


def told(past_runs: list[PastRun], modelled: bool = False, up: int = 1, **changes: Any) -> Any:
    return estimate(plan_experiment(document(**changes)), past_runs, modelled, up)


def test_without_a_past_run_nothing_is_told():
    assert told([]) is None
    assert told([past(model="another")]) is None
    assert told([past(modelled=True)]) is None


def test_the_same_run_again_takes_as_long():
    found = told([past()])
    assert (found.seconds, found.low, found.high) == (10.0, 10.0, 10.0)
    assert found.basis == f"1 past run of {MODEL} on measured nodes with the same settings and load"


def test_the_window_grows_with_the_requests_but_what_is_done_once_does_not():
    workload = document()["workload"] | {"num_requests": 40}
    assert told([past()], workload=workload).seconds == pytest.approx(2.0 + 80.0)


def test_a_workload_of_a_given_time_takes_that_time():
    workload = {key: value for key, value in document()["workload"].items() if key != "num_requests"}
    assert told([past()], workload=workload | {"duration_s": 30.0}).seconds == pytest.approx(32.0)


def test_every_run_counts_and_repeats_are_spread_over_the_nodes_that_are_up():
    changes = {"matrix": {"engine.weights": ["bf16", "int8"]}, "repeats": 4}
    assert told([past()], **changes).seconds == pytest.approx(80.0)
    spread = told([past()], up=3, **changes)
    assert spread.seconds == pytest.approx(40.0)
    assert spread.basis.endswith("over 3 nodes at once")


def test_the_quartiles_of_the_past_are_the_bounds():
    found = told([past(whole_s=whole) for whole in (9.0, 10.0, 11.0, 12.0, 13.0)])
    assert found.low < found.seconds < found.high


def test_those_most_alike_speak_and_the_basis_says_how_alike_they_are():
    others = [past(settings=settings("int8", 4), whole_s=100.0), past(settings=settings("bf16", 4), whole_s=50.0)]
    assert told([*others, past()]).seconds == 10.0
    assert told(others).seconds == 50.0
    assert "same weights" in told(others).basis
    assert told(others[:1]).seconds == 100.0
    assert "other loads" in told(others[:1]).basis


def test_runs_of_the_same_system_speak_before_those_of_another():
    replicas = [past(settings=settings(seqs=4, replicas=count), whole_s=50.0 - 10 * count) for count in (2, 1)]
    found = told(replicas, placement={"replicas": 2})
    assert found.seconds == 30.0 and "load and placement" in found.basis
    assert told(replicas[1:], placement={"replicas": 2}).basis.endswith("with the same weights and load")


def test_a_named_nodes_own_runs_speak_before_those_of_others():
    found = told([past(node="slow", whole_s=99.0), past()], nodes={"names": ["local"]})
    assert found.seconds == 10.0


@pytest.mark.parametrize("requests", [1, 10**6])
def test_a_modelled_run_is_scaled_as_a_whole(requests):
    workload = document()["workload"] | {"num_requests": requests}
    assert told([past(modelled=True)], modelled=True, workload=workload).seconds == pytest.approx(10 * requests / 4)
