"""The highest load under an SLO, on systems whose limit is known."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import Answer, Laboratory, load_spec

from experiments.search.load import LoadCourse, most_levels
from experiments.search.planner import most_runs
from experiments.search.seen import Settings
from runners.spec import LoadSearch

LOAD = "workload.arrival.max_concurrency"
RATE = "workload.arrival.request_rate"


def load_of(asked: Settings) -> float:
    return float(asked.get(LOAD) or asked.get(RATE) or 0)


def holds_to(limit: float) -> Any:
    return lambda asked, chance: Answer(slo_met=load_of(asked) <= limit)


def course(laboratory: Laboratory) -> LoadCourse:
    (found,) = laboratory.run().courses
    assert isinstance(found, LoadCourse)
    return found


def search_of(laboratory: Laboratory) -> LoadSearch:
    assert isinstance(laboratory.spec.search, LoadSearch)
    return laboratory.spec.search


@settings(max_examples=60, deadline=None)
@given(limit=st.integers(1, 127), low=st.integers(1, 8), seed=st.integers(0, 99))
def test_a_sharp_limit_is_found_to_the_tolerance_with_both_ends_measured(limit: int, low: int, seed: int) -> None:
    laboratory = Laboratory(load_spec(low=low, high=128), holds_to(limit), seed=seed)
    found = course(laboratory)
    if limit < low:
        assert found.lower is None and found.upper is not None and found.upper.load == low
        return
    assert found.lower is not None and found.upper is not None
    assert found.lower.load <= limit < found.upper.load
    assert found.upper.load - found.lower.load <= max(1, int(0.05 * found.lower.load))
    assert found.lower.judged == found.upper.judged == 3
    assert laboratory.runs <= most_runs(laboratory.spec, 1)


@settings(max_examples=40, deadline=None)
@given(limit=st.floats(0.5, 30), tolerance=st.sampled_from([0.01, 0.05, 0.3]))
def test_a_rate_is_found_by_ratio(limit: float, tolerance: float) -> None:
    laboratory = Laboratory(load_spec(0.5, 32, rate=True, tolerance=tolerance), holds_to(limit))
    found = course(laboratory)
    assert found.lower is not None and found.upper is not None
    assert found.lower.load <= limit < found.upper.load
    assert found.upper.load / found.lower.load - 1 <= tolerance + 1e-3
    assert len(found.levels) <= most_levels(search_of(laboratory))


def test_what_never_breaches_is_a_floor_and_no_answer() -> None:
    found = course(Laboratory(load_spec(high=100), holds_to(1e9)))
    assert (found.lower and found.lower.load, found.upper) == (100, None)
    assert found.said.startswith("at least 100 users at once hold") and "no breach was measured" in found.said
    assert [level.load for level in found.levels] == [1, 2, 4, 8, 16, 32, 64, 100]
    assert found.as_json()["confirmed"] == {"passed": 3, "of": 3}


def test_what_never_holds_says_so_by_its_lowest_level_alone() -> None:
    laboratory = Laboratory(load_spec(low=4), holds_to(0))
    found = course(laboratory)
    assert found.said == "not even 4 users at once hold: the objective was not met"
    assert [level.load for level in found.levels] == [4] and laboratory.runs == 3


def test_a_measured_breach_is_named() -> None:
    found = course(Laboratory(load_spec(), holds_to(11)))
    assert found.said == "11 users at once hold; an upper bound was measured at 12: the objective was not met"


def test_a_backlog_that_grows_is_a_breach_in_an_open_loop() -> None:
    def system(asked: Settings, chance: random.Random) -> Answer:
        saturated = load_of(asked) > 6
        return Answer(slo_met=True, reasons=("no_steady_state",) if saturated else ())

    found = course(Laboratory(load_spec(1, 64, rate=True), system))
    assert found.lower is not None and found.upper is not None
    assert found.lower.load <= 6 < found.upper.load <= 6 * 1.06
    assert "saturated" in found.upper.why
    assert max(level.load for level in found.levels) == 8, "it went on past its saturation"


def test_too_short_a_closed_loop_is_no_breach_but_not_judged() -> None:
    system = lambda asked, chance: Answer(reasons=("no_steady_state",) if load_of(asked) > 6 else ())  # noqa: E731
    found = course(Laboratory(load_spec(), system))
    assert found.step.done == "8 users at once could not be judged: no_steady_state"
    assert (found.lower and found.lower.load, found.upper) == (4, None)


def test_failed_requests_are_a_breach_whatever_else_is_wrong() -> None:
    def system(asked: Settings, chance: random.Random) -> Answer:
        return (
            Answer(success=0.9, reasons=("errors_over_1pct", "too_few_requests")) if load_of(asked) > 20 else Answer()
        )

    found = course(Laboratory(load_spec(), system))
    assert found.lower and found.lower.load == 20
    assert found.upper and "90.0% of the requests were ok, below 95%" in found.upper.why


def test_a_few_failed_requests_are_none() -> None:
    found = course(Laboratory(load_spec(high=8), lambda a, c: Answer(success=0.97, reasons=("errors_over_1pct",))))
    assert found.lower and found.lower.load == 8


def test_a_client_that_is_the_limit_ends_the_search_with_a_floor() -> None:
    system = lambda asked, chance: Answer(reasons=("client_bound",) if load_of(asked) > 30 else ())  # noqa: E731
    laboratory = Laboratory(load_spec(), system)
    found = course(laboratory)
    assert found.step.done == "32 users at once could not be judged: client_bound"
    assert found.lower and found.lower.load == 16 and found.upper is None
    assert len(found.levels[-1].runs) == 3


def test_a_run_that_tells_nothing_is_made_good_by_another() -> None:
    spoilt = set()

    def system(asked: Settings, chance: random.Random) -> Answer:
        first = load_of(asked) not in spoilt
        spoilt.add(load_of(asked))
        return Answer(reasons=("node_shared",)) if first else Answer(slo_met=load_of(asked) <= 9)

    found = course(Laboratory(load_spec(), system))
    assert found.lower and found.lower.load == 9 and found.upper and found.upper.load == 10


def test_a_limit_that_is_not_confirmed_moves_down() -> None:
    """Above 10 a level passes the first time only."""
    seen: dict[float, int] = {}

    def system(asked: Settings, chance: random.Random) -> Answer:
        load = load_of(asked)
        seen[load] = seen.get(load, 0) + 1
        return Answer(slo_met=load <= 10 or (load <= 14 and seen[load] == 1))

    found = course(Laboratory(load_spec(), system))
    assert found.lower and found.lower.load == 10 and found.upper and found.upper.load == 11


def test_by_all_one_breach_in_the_confirmation_is_enough() -> None:
    seen: dict[float, int] = {}

    def system(asked: Settings, chance: random.Random) -> Answer:
        load = load_of(asked)
        seen[load] = seen.get(load, 0) + 1
        return Answer(slo_met=load < 10 or (load < 13 and seen[load] != 3))

    by_majority = course(Laboratory(load_spec(), system))
    assert by_majority.lower and by_majority.lower.load == 12
    seen.clear()
    by_all = course(Laboratory(load_spec(confirm_by="all"), system))
    assert by_all.lower and by_all.lower.load == 9


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_noisy_limit_is_found_within_its_noise(seed: int) -> None:
    """The chance to pass falls from 1 to 0 between 30 and 50."""

    def system(asked: Settings, chance: random.Random) -> Answer:
        return Answer(slo_met=load_of(asked) < 30 + 20 * chance.random())

    found = course(Laboratory(load_spec(), system, seed=seed))
    assert found.lower is not None and found.upper is not None
    assert 24 <= found.lower.load < 50 and found.upper.load > 30
    assert found.lower.judged >= 3 and found.upper.judged >= 3


@settings(max_examples=40, deadline=None)
@given(passing=st.sets(st.integers(1, 64)), seed=st.integers(0, 99))
def test_any_system_comes_to_an_end_and_the_answer_is_what_was_measured(passing: set[int], seed: int) -> None:
    laboratory = Laboratory(load_spec(high=64), lambda a, c: Answer(slo_met=load_of(a) in passing), seed=seed)
    found = course(laboratory)
    if found.lower is not None:
        assert found.lower.load in passing
    if found.upper is not None:
        assert found.upper.load not in passing
    above = found.as_json()["holds_above"]
    assert all(load in passing and found.upper is not None and load > found.upper.load for load in above)


def test_every_combination_of_a_matrix_has_a_search_of_its_own() -> None:
    cells = [{"engine.weights": "bf16"}, {"engine.weights": "int8"}]
    limits = {"bf16": 5, "int8": 40}
    system = lambda asked, chance: Answer(slo_met=load_of(asked) <= limits[str(asked["engine.weights"])])  # noqa: E731
    planned = Laboratory(load_spec(), system, cells=cells).run()
    lows = {one["settings"]["engine.weights"]: one["low"] for one in planned.as_json()["courses"]}
    assert lows == {"bf16": 5, "int8": 40}


def test_a_level_that_no_node_takes_ends_the_search() -> None:
    found = course(Laboratory(load_spec(), holds_to(1e9), allowed=lambda asked: load_of(asked) <= 16))
    assert found.step.done == "no node takes 32 users at once" and found.lower and found.lower.load == 16


@pytest.mark.parametrize("order", range(5))
def test_the_order_in_which_runs_end_changes_nothing(order: int) -> None:
    cells = [{"engine.weights": "bf16"}, {"engine.weights": "int8"}]
    laboratory = Laboratory(load_spec(), holds_to(37), cells=cells, seed=order)
    lows = [one["low"] for one in laboratory.run().as_json()["courses"]]
    assert lows == [37, 37] or all(36 <= low <= 37 for low in lows)
