"""What is planted in a modelled run is what the run is said to be held up by."""

from __future__ import annotations

from functools import cache

import pytest
from modelled_plants import PLANTS, Plant, play

from experiments.analysis.bottleneck import CAUSES, Verdict, judge

SEEDS = (1, 2, 3)
UNPLANTED = {"client", "network"}
"""An ideal client on a virtual clock has neither; they are planted in measured runs."""


@cache
def verdicts(place: int) -> tuple[Verdict, ...]:
    return tuple(judge(play(PLANTS[place], seed)[1]) for seed in SEEDS)


def test_every_kind_that_a_modelled_run_can_have_is_planted() -> None:
    assert {plant.kind for plant in PLANTS} == set(CAUSES) - UNPLANTED


def test_the_planted_cause_is_named_in_nine_of_ten_runs() -> None:
    found = [(plant.kind, verdict.kind) for place, plant in enumerate(PLANTS) for verdict in verdicts(place)]
    right = sum(planted == named for planted, named in found)
    assert right >= 0.9 * len(found), [pair for pair in found if pair[0] != pair[1]]


@pytest.mark.parametrize("place", range(len(PLANTS)), ids=[plant.name for plant in PLANTS])
def test_the_planted_cause_is_never_far_from_the_top(place: int) -> None:
    plant: Plant = PLANTS[place]
    for verdict in verdicts(place):
        assert plant.kind in [cause.kind for cause in verdict.causes[:2]]
        assert all(0 <= cause.score <= 1 for cause in verdict.causes)
        assert sum(cause.score for cause in verdict.causes) <= 1 + 1e-6


def test_each_cause_says_its_share_and_the_figures_behind_it() -> None:
    for place in range(len(PLANTS)):
        for verdict in verdicts(place):
            for cause in verdict.causes:
                assert cause.says and cause.score >= 0.02
                assert cause.figures, cause.kind
                assert "None" not in cause.says and "nan" not in cause.says
