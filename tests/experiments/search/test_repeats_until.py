"""Repeats until an interval is tight: when they stop, and what is said then."""

from __future__ import annotations

import random
from typing import Any

from simulated import Answer, Laboratory, spec_with

from experiments.search.seen import Settings
from experiments.search.tight import TightCourse, half_width

CELLS = [{"engine.weights": "bf16"}, {"engine.weights": "int8"}]


def noisy(spread: float, **more: Any) -> Any:
    def system(asked: Settings, chance: random.Random) -> Answer:
        spread_here = spread if asked.get("engine.weights") == "bf16" else spread / 10
        return Answer({"output_throughput": 100 * (1 + spread_here * chance.gauss(0, 1))}, **more)

    return system


def finished(laboratory: Laboratory) -> TightCourse:
    (found,) = laboratory.run().courses
    assert isinstance(found, TightCourse)
    return found


def until(**changes: Any) -> Any:
    return spec_with(repeats={"until": {"metric": "output_throughput", "interval": 0.03, "max": 12, **changes}})


def repeats(laboratory: Laboratory) -> list[int]:
    return [len(trial.runs) for trial in laboratory.trials]


def test_a_quiet_system_stops_at_the_least_number() -> None:
    laboratory = Laboratory(until(), noisy(0.001), cells=CELLS)
    found = finished(laboratory)
    assert repeats(laboratory) == [5, 5]
    assert found.step.done == "the interval of output_throughput is within ±3.0% in 2 of 2 trials"


def test_the_noisiest_trial_decides_and_all_get_its_repeats() -> None:
    laboratory = Laboratory(until(max=40), noisy(0.05), cells=CELLS)
    found = finished(laboratory)
    assert len(set(repeats(laboratory))) == 1 and 5 < repeats(laboratory)[0] < 40
    assert all(one.half_width is not None and one.half_width <= 0.03 for one in found.trials_now)


def test_a_loud_system_stops_at_the_most_and_says_where_it_is_wide() -> None:
    laboratory = Laboratory(until(max=7), noisy(0.5), cells=CELLS)
    found = finished(laboratory)
    assert repeats(laboratory) == [7, 7]
    assert found.step.done.startswith("7 repeats are the most; the interval of output_throughput is wider")


def test_modelled_trials_stop_at_the_least_as_repeats_do_not_help() -> None:
    laboratory = Laboratory(until(), noisy(0.5, modelled=True), cells=CELLS)
    assert "modelled trials (2)" in finished(laboratory).step.done
    assert repeats(laboratory) == [5, 5]


def test_a_trial_without_a_valid_run_holds_nothing_up() -> None:
    def system(asked: Settings, chance: random.Random) -> Answer:
        spoilt = asked["engine.weights"] == "int8"
        return Answer({"output_throughput": 100.0}, reasons=("node_shared",) if spoilt else ())

    laboratory = Laboratory(until(), system, cells=CELLS)
    assert "in 1 no valid run has the figure" in finished(laboratory).step.done
    assert repeats(laboratory) == [5, 5]


def test_without_a_least_of_its_own_a_small_most_is_both() -> None:
    spec = until(max=3)
    assert (spec.first_repeats, spec.most_repeats) == (3, 3)


def test_half_widths_are_relative_and_of_the_interval_that_comparisons_show() -> None:
    assert half_width([1.0]) is None
    assert half_width([5.0, 5.0]) == 0
    assert half_width([0.0, 0.0]) == 0
    # t(1) at 97.5 % is 12.706; s/√n of 9 and 11 is 1
    assert abs((half_width([9.0, 11.0]) or 0) - 1.2706) < 1e-3


def test_what_stops_by_looking_still_holds_the_truth_in_nine_of_ten() -> None:
    held = 0
    for seed in range(150):
        laboratory = Laboratory(until(max=30), noisy(0.03), cells=CELLS[:1], seed=seed)
        finished(laboratory)
        values = [run.result.values["output_throughput"] for run in laboratory.trials[0].runs if run.result]
        known = [value or 0.0 for value in values]
        mean, half = sum(known) / len(known), half_width(known) or 0.0
        held += abs(mean - 100) <= half * mean
    assert held >= 0.88 * 150
