"""The fit of steps: its slopes are those of the times, and its softened residuals keep outliers from pulling."""

from __future__ import annotations

import numpy as np
import pytest
from published_rows import CHAT, CLOSED

from runners.modelled.cases import CaseReader
from runners.modelled.facts import ChipTable
from runners.modelled.fit import Problem, Timer, soften, softened_slope
from runners.modelled.model_shapes import ModelShapes

READER = CaseReader(ChipTable.load("catalog"), ModelShapes.load())


def test_slopes_are_those_of_the_steps_times() -> None:
    problem = Problem.of([READER.read(item) for item in [*CHAT, CLOSED]])
    timer = Timer(problem)
    at = np.random.default_rng(3).normal(0, 0.2, len(problem.index))
    slopes = timer.slopes(at)
    assert slopes.shape == (len(CHAT) + 1, len(at))
    for place in range(0, len(at), 5):
        step = np.zeros(len(at))
        step[place] = 1e-5
        wanted = (np.log(timer.step_s(at + step)) - np.log(timer.step_s(at - step))) / 2e-5
        assert slopes[:, place] == pytest.approx(wanted, abs=1e-3)


def test_small_residuals_stay_as_they_are_and_large_ones_grow_as_their_roots() -> None:
    assert soften(np.array([0.01, -0.01])) == pytest.approx([0.01, -0.01], rel=1e-3)
    small, large = soften(np.array([100.0, 400.0]))
    assert large / small == pytest.approx(2.0, rel=0.02)
    at = np.array([-2.0, 0.0, 0.5, 3.0])
    assert softened_slope(at) == pytest.approx((soften(at + 1e-6) - soften(at - 1e-6)) / 2e-6, rel=1e-3)
