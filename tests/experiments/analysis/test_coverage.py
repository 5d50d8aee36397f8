"""How often the intervals hold the truth, and how often equal settings are called different, over 2,000 simulated
experiments each. Seeded, so that a result stands until the code changes; its own error is half a percentage point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from experiments.analysis.compare import RunResult, TrialResult, compare_trials
from experiments.analysis.intervals import Interval, mean_interval, paired_interval, welch_interval

Values = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Values]
EXPERIMENTS = 2000
REPEATS = (3, 5, 12)
SIGMA = 0.2
BEFORE, AFTER = 100.0, 108.0


def normal(rng: np.random.Generator, repeats: int) -> Values:
    return 1 + SIGMA * rng.standard_normal(repeats)


def lognormal(rng: np.random.Generator, repeats: int) -> Values:
    """Skewed, as a mean of 1."""
    return np.exp(SIGMA * rng.standard_normal(repeats) - SIGMA**2 / 2)


def settings_measured(noise: Noise, repeats: int, seed: int = 20261130) -> list[tuple[list[float], list[float]]]:
    """What was measured of the setting before and after, in each experiment."""
    rng = np.random.default_rng(seed)
    return [
        ((BEFORE * noise(rng, repeats)).tolist(), (AFTER * noise(rng, repeats)).tolist()) for _ in range(EXPERIMENTS)
    ]


def coverage(intervals: list[Interval], truth: float) -> float:
    held = [found.low <= truth <= found.high for found in intervals if found.low is not None and found.high is not None]
    assert len(held) == EXPERIMENTS
    return sum(held) / EXPERIMENTS


@pytest.mark.parametrize("noise", [normal, lognormal])
@pytest.mark.parametrize("repeats", [*REPEATS, 10])
def test_a_95_percent_interval_holds_the_truth_in_93_to_97_percent_of_experiments(noise: Noise, repeats: int) -> None:
    measured = settings_measured(noise, repeats)
    shares = {
        "mean": coverage([mean_interval(before) for before, _ in measured], BEFORE),
        "paired": coverage([paired_interval(before, after) for before, after in measured], AFTER - BEFORE),
        "Welch": coverage([welch_interval(before, after) for before, after in measured], AFTER - BEFORE),
    }
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


def trial(trial_id: int, experiment_id: int, throughputs: Values) -> TrialResult:
    runs = [
        RunResult(trial_id * 100 + i, i, "node", False, True, (), 10, {"output_throughput": float(value)})
        for i, value in enumerate(throughputs)
    ]
    return TrialResult(trial_id, experiment_id, {}, tuple(runs))


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize(("noise", "other_experiment"), [(lognormal, 1), (normal, 2)], ids=["paired", "unpaired"])
def test_equal_settings_are_called_different_in_at_most_5_percent(
    noise: Noise, repeats: int, other_experiment: int
) -> None:
    rng = np.random.default_rng(7)
    called = 0
    for _ in range(EXPERIMENTS):
        one, other = trial(1, 1, noise(rng, repeats)), trial(2, other_experiment, noise(rng, repeats))
        (row,) = compare_trials([one, other])["differences"]
        called += row["is_difference"]
    assert called / EXPERIMENTS <= 0.05


def test_a_difference_far_above_the_noise_is_nearly_always_called_one() -> None:
    rng = np.random.default_rng(7)
    rows = [
        compare_trials([trial(1, 1, normal(rng, 5)), trial(2, 1, 3 * normal(rng, 5))])["differences"][0]
        for _ in range(200)
    ]
    assert sum(row["is_difference"] for row in rows) >= 190
