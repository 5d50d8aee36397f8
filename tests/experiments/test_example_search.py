"""The shipped example that searches shows what its text says; played coarser than it is shipped."""

from __future__ import annotations

from random import Random

from example_runs import document, plan, play, run_spec
from simulated import Answer, Laboratory

from experiments.search.seen import Settings
from runners.matrix import cell_of, plan_experiment

NAME = "14-highest-load-under-an-objective"


def test_14_fp8_holds_more_than_half_as_many_requests_again_and_both_ends_are_measured() -> None:
    seeds = iter(range(1, 100))

    def system(asked: Settings, chance: Random) -> Answer:
        found = play(run_spec(cell_of(document(NAME), 0, asked), seed=next(seeds))).summary
        reasons = tuple(reason.code for reason in found.reasons)
        met, failed = found.metrics["slo_met"].value, found.metrics["requests_failed"].value
        return Answer({}, bool(met), 1.0 if not failed else 0.0, reasons, modelled=True)

    coarse = {**document(NAME)["search"], "low": 8.0, "tolerance": 0.2, "confirm": 1}
    spec = plan_experiment({**document(NAME), "search": coarse}).spec
    courses = Laboratory(spec, system, cells=plan(NAME).searched).run().as_json()["courses"]
    low = {one["settings"]["engine.weights"]: one["low"] for one in courses}
    assert all(one["low"] < one["high"] <= 1.2 * one["low"] for one in courses)
    assert 18 < low["bf16"] < 28 and 1.4 < low["fp8"] / low["bf16"] < 2.2
