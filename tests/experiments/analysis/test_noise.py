"""A node's noise from its history, by hand and on histories whose spreads are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.analysis.compare import RunResult, TrialResult, compare_trials
from experiments.analysis.noise import HistoricRun, NodeNoise, measure_noise

METRIC = "output_throughput"
T_1, T_3 = 12.7062, 3.18245


def history(*experiments: list[float], settings: str = "a", first: int = 1) -> list[HistoricRun]:
    return [
        HistoricRun(settings, number, f"2026-01-{number:02}T00:00:00+00:00", {METRIC: value, "ttft": None})
        for number, values in enumerate(experiments, first)
        for value in values
    ]


def test_runs_of_one_experiment_by_hand():
    """−10 % and +10 %: a relative spread of sqrt(0.02), with one degree of freedom."""
    found = measure_noise(history([9.0, 11.0]), [METRIC, "ttft"])
    assert set(found) == {METRIC}
    noise = found[METRIC]
    assert noise.within == pytest.approx(math.sqrt(0.02))
    assert (noise.within_freedom, noise.between, noise.runs, noise.settings) == (1, None, 2, 1)
    assert noise.floor(1, across=False) == pytest.approx(T_1 * math.sqrt(0.04), rel=1e-5)
    assert noise.floor(4, across=True) == pytest.approx(T_1 * math.sqrt(0.01), rel=1e-5)


def test_single_runs_of_many_experiments_by_hand():
    """Relative deviations −0.1, 0.1, −0.1, 0.1: squares of 0.04 over 3 degrees of freedom, all of it between."""
    noise = measure_noise(history([9.0], [11.0], [9.0], [11.0]), [METRIC])[METRIC]
    assert noise.within is None
    assert noise.between == pytest.approx(math.sqrt(0.04 / 3))
    assert noise.floor(1, across=True) == pytest.approx(T_3 * math.sqrt(0.08 / 3), rel=1e-5)
    assert noise.floor(1, across=False) is None
    assert (noise.oldest[:10], noise.newest[:10], noise.experiments) == ("2026-01-01", "2026-01-04", 4)


def test_settings_of_other_sizes_are_pooled_by_their_relative_spread():
    noise = measure_noise([*history([9.0, 11.0]), *history([900.0, 1100.0], settings="b", first=2)], [METRIC])[METRIC]
    assert noise.within == pytest.approx(math.sqrt(0.02))
    assert (noise.within_freedom, noise.settings, noise.between) == (2, 2, None)


def test_what_was_never_repeated_or_is_zero_gives_no_floor():
    assert measure_noise([], [METRIC]) == {}
    assert measure_noise([*history([9.0]), *history([5.0], settings="b"), *history([0.0, 0.0], settings="c")],
                         [METRIC]) == {}  # fmt: skip


def test_both_spreads_of_a_long_history_are_found():
    rng = np.random.default_rng(2)
    experiments = [
        (100 * (1 + 0.03 * rng.standard_normal() + 0.01 * rng.standard_normal(rng.integers(1, 6)))).tolist()
        for _ in range(400)
    ]
    runs = [HistoricRun("a", i, "2026-01-01", {METRIC: v}) for i, values in enumerate(experiments) for v in values]
    noise = measure_noise(runs, [METRIC])[METRIC]
    assert noise.within == pytest.approx(0.01, rel=0.1)
    assert noise.between == pytest.approx(0.03, rel=0.1)


def test_the_floor_across_experiments_holds_95_percent_of_equal_settings():
    rng = np.random.default_rng(4)
    inside = 0
    for _ in range(1000):
        *past, one, other = [
            100 * (1 + 0.02 * rng.standard_normal() + 0.01 * rng.standard_normal(3)) for _ in range(10)
        ]
        floor = measure_noise(history(*(values.tolist() for values in past)), [METRIC])[METRIC].floor(3, across=True)
        assert floor is not None
        inside += abs(other.mean() / one.mean() - 1) <= floor
    assert 0.93 <= inside / 1000 <= 0.97


def lone_trial(trial_id: int, value: float, noise: dict[str, NodeNoise], experiment: int = 1) -> TrialResult:
    run = RunResult(trial_id, 0, "node", False, True, (), 10, {METRIC: value}, noise=noise)
    return TrialResult(trial_id, experiment, {}, (run,))


def test_trials_without_repeats_are_shown_beside_the_nodes_own_floor():
    noise = measure_noise(history([9.0, 11.0, 10.0], [10.0, 9.5], [10.5], [11.0]), [METRIC])
    (row,) = compare_trials([lone_trial(1, 10.0, noise), lone_trial(2, 20.0, noise)])["differences"]
    assert row["noise_floor"] == pytest.approx(noise[METRIC].floor(1, across=False))
    assert "7 runs of 1 setting in 4 experiments" in row["noise_source"]
    assert not row["is_difference"]
    (other,) = compare_trials([lone_trial(1, 10.0, noise), lone_trial(2, 20.0, noise, 2)])["differences"]
    assert other["noise_floor"] == pytest.approx(noise[METRIC].floor(1, across=True))
    (bare,) = compare_trials([lone_trial(1, 10.0, {}), lone_trial(2, 20.0, {})])["differences"]
    assert (bare["noise_floor"], bare["noise_source"]) == (None, None)
