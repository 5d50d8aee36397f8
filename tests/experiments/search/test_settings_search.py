"""Best settings and fronts, on systems whose optimum is known."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from simulated import Answer, Laboratory, spec_with

from experiments.search.best import BestCourse
from experiments.search.explore import Exploring
from experiments.search.front import FrontCourse
from experiments.search.seen import Settings, key_of

SEQS = "engine.max_num_seqs"
WEIGHTS = "engine.weights"
SPACE = {SEQS: {"low": 1, "high": 256, "log": True}, WEIGHTS: ["bf16", "int8", "int4"]}
FACTOR = {"bf16": 1.0, "int8": 1.5, "int4": 1.2}


def goodput(asked: Settings, chance: random.Random) -> Answer:
    """Best at 32 sequences and int8."""
    seqs = float(asked[SEQS] or 1)
    height = FACTOR[str(asked.get(WEIGHTS, "bf16"))] * min(seqs / 32, 32 / seqs)
    noise = 1 + 0.01 * chance.gauss(0, 1)
    return Answer({"goodput": 10 * height * noise, "ttft": seqs / 100, "output_throughput": 100 * height})


def best_spec(**changes: Any) -> Any:
    return spec_with(search={"optimize": "goodput", "space": SPACE, "trials": 40, **changes})


def best_of(laboratory: Laboratory) -> BestCourse:
    (found,) = laboratory.run().courses
    assert isinstance(found, BestCourse)
    return found


def test_the_best_settings_are_found_and_confirmed_against_the_runner_up() -> None:
    laboratory = Laboratory(best_spec(), goodput)
    found = best_of(laboratory).as_json()
    best, other = found["best"], found["runner_up"]
    assert best["settings"][WEIGHTS] == "int8" and 20 <= best["settings"][SEQS] <= 48
    assert best["n"] == other["n"] == 3 and best["low"] < best["mean"] < best["high"]
    assert found["difference"]["n"] == 3 and found["difference"]["noise_floor"] is not None
    assert found["difference"]["verdict"] in ("better", "no difference shown")
    assert len(laboratory.trials) == 40


def test_it_learns_from_what_was_tried() -> None:
    laboratory = Laboratory(best_spec(), goodput)
    best_of(laboratory)
    values = [run.result.values["goodput"] or 0 for one in laboratory.trials for run in one.runs[:1] if run.result]
    assert sum(values[10:]) / 30 > 1.5 * sum(values[:10]) / 10


def test_the_same_stored_trials_always_give_the_same_next_point() -> None:
    laboratory = Laboratory(best_spec(), goodput)
    best_of(laboratory)
    for number in (0, 3, 13, 25):
        laboratory.trials = laboratory.trials[:number]
        once, again = laboratory.planned().step.wanted, laboratory.planned().step.wanted
        assert once == again


def test_no_settings_are_tried_twice() -> None:
    laboratory = Laboratory(best_spec(), goodput)
    best_of(laboratory)
    keys = [key_of(one.settings) for one in laboratory.trials]
    assert len(set(keys)) == len(keys)


def test_a_small_space_is_tried_whole_and_at_once() -> None:
    space = {SEQS: [8, 16, 32], WEIGHTS: ["bf16", "int8"]}
    laboratory = Laboratory(best_spec(space=space), goodput)
    assert len(laboratory.planned().step.wanted) == 6
    found = best_of(laboratory)
    assert found.step.done == "all 6 possible settings of the space were tried"
    assert found.rivals[0].trial.settings == {SEQS: 32, WEIGHTS: "int8"}


def test_what_breaks_the_objective_or_is_invalid_does_not_win() -> None:
    def system(asked: Settings, chance: random.Random) -> Answer:
        base = goodput(asked, chance)
        if asked[WEIGHTS] == "int8":
            return Answer(base.values, slo_met=False)
        return Answer(base.values, reasons=("quality_below_floor",) if asked[WEIGHTS] == "int4" else ())

    found = best_of(Laboratory(best_spec(), system)).as_json()
    assert found["best"]["settings"][WEIGHTS] == "bf16" == found["runner_up"]["settings"][WEIGHTS]
    why = {one["why"] for one in found["tried"] if not one["holds"]}
    assert why == {"the objective was not met", "quality_below_floor"}


def test_where_nothing_holds_there_is_no_best() -> None:
    found = best_of(Laboratory(best_spec(trials=6), lambda asked, chance: Answer({"goodput": 0.0}, slo_met=False)))
    assert "none of them is valid and within the objective" in found.step.done
    assert found.as_json()["best"] is None


def test_a_lucky_run_is_found_out_when_it_is_confirmed() -> None:
    """Each setting's first run may be doubled by luck; its later ones are not."""
    seen: set[str] = set()

    def system(asked: Settings, chance: random.Random) -> Answer:
        first = key_of(asked) not in seen
        seen.add(key_of(asked))
        lucky = first and asked[SEQS] == 8
        return Answer({"goodput": (3 if lucky else 1) * float(asked[SEQS] or 1) + 0.1 * chance.random()})

    found = best_of(Laboratory(best_spec(space={SEQS: [4, 8, 16]}), system))
    assert [one.trial.settings[SEQS] for one in found.rivals] == [16, 8]


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (1.0, "max_num_seqs 16 is the best: better than its runner-up, max_num_seqs 8"),
        (0.0, r"max_num_seqs \d+ leads, but over its runner-up, max_num_seqs \d+: no difference shown"),
    ],
)
def test_what_leads_is_called_the_best_only_where_that_is_shown(apart: float, said: str) -> None:
    def system(asked: Settings, chance: random.Random) -> Answer:
        return Answer({"goodput": 10 + apart * float(asked[SEQS] or 1) + 0.1 * chance.gauss(0, 1)})

    found = best_of(Laboratory(best_spec(space={SEQS: [4, 8, 16]}), system))
    assert re.fullmatch(said, found.said)


def test_less_is_better_where_the_figure_says_so() -> None:
    system = lambda asked, chance: Answer({"ttft": 1 / float(asked[SEQS])})  # noqa: E731
    found = best_of(Laboratory(best_spec(optimize="ttft", space={SEQS: [1, 2, 4]}), system))
    assert found.rivals[0].trial.settings[SEQS] == 4


def test_settings_that_are_not_possible_are_passed_over() -> None:
    laboratory = Laboratory(best_spec(), goodput, allowed=lambda asked: asked[WEIGHTS] != "int8")
    best_of(laboratory)
    assert {one.settings[WEIGHTS] for one in laboratory.trials} == {"bf16", "int4"}


def test_a_space_with_nothing_possible_ends_at_once() -> None:
    laboratory = Laboratory(best_spec(), goodput, allowed=lambda asked: False)
    assert "no settings of the space are possible" in best_of(laboratory).step.done and laboratory.runs == 0


def test_a_space_that_is_used_up_ends_early() -> None:
    space = {SEQS: {"low": 1, "high": 60}}
    laboratory = Laboratory(
        best_spec(space=space, trials=50), goodput, allowed=lambda asked: int(asked[SEQS] or 0) < 20
    )
    best_of(laboratory)
    assert {one.settings[SEQS] for one in laboratory.trials} == set(range(1, 20))


@pytest.mark.parametrize("trials", [20])
def test_the_front_holds_valid_settings_that_no_other_beats(trials: int) -> None:
    def system(asked: Settings, chance: random.Random) -> Answer:
        base = goodput(asked, chance)
        return Answer(base.values, reasons=("client_bound",) if asked[WEIGHTS] == "int8" else ())

    spec = spec_with(search={"pareto": {"metrics": ["output_throughput", "ttft"], "space": SPACE, "trials": trials}})
    laboratory = Laboratory(spec, system)
    (found,) = laboratory.run().courses
    assert isinstance(found, FrontCourse) and isinstance(found.exploring, Exploring)
    by_id = {one.id: one for one in laboratory.trials}
    front = [by_id[one].settings for one in found.front]
    assert front and all(one[WEIGHTS] != "int8" for one in front)
    figures = {
        one.id: goodput(one.settings, random.Random(0)).values
        for one in laboratory.trials
        if one.settings[WEIGHTS] != "int8"
    }
    for one in found.front:
        beaten = [
            other
            for other in figures.values()
            if other["output_throughput"] > figures[one]["output_throughput"] and other["ttft"] < figures[one]["ttft"]
        ]
        assert not beaten
