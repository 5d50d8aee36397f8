"""Verdicts on trials whose truth is known: planted changes, equal settings, and too few runs to say."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.analysis.compare import RunResult, TrialResult, noise_floors
from experiments.analysis.regression import JUDGED, Outcome, Verdict, judge

SPREAD = 0.01


def trial(
    trial_id: int, values: list[float], metric: str = "output_throughput", experiment: int | None = None, **fields
) -> TrialResult:
    runs = [
        RunResult(trial_id * 100 + i, i, "node", fields.get("modelled", False), True, (), 10, {metric: value})
        for i, value in enumerate(values)
    ]
    return TrialResult(trial_id, experiment or trial_id, {}, tuple(runs))


def verdict(
    before: TrialResult, after: TrialResult, metric: str = "output_throughput", effect: float = 0.05
) -> Verdict:
    return judge(metric, before, after, noise_floors([before, after]).get(("node", metric)), effect=effect)


def measured(rng: np.random.Generator, mean: float, repeats: int, spread: float = SPREAD) -> list[float]:
    return (mean * (1 + spread * rng.standard_normal(repeats))).tolist()


def outcomes(change: float, repeats: int, *, effect: float, same_experiment: bool = False) -> list[Outcome]:
    rng = np.random.default_rng(11)
    found = []
    for _ in range(300):
        before = trial(1, measured(rng, 100, repeats), experiment=1)
        after = trial(2, measured(rng, 100 * (1 + change), repeats), experiment=1 if same_experiment else 2)
        found.append(verdict(before, after, effect=effect).outcome)
    return found


@pytest.mark.parametrize("same_experiment", [True, False])
@pytest.mark.parametrize(("change", "repeats", "least"), [(-0.03, 8, 0.99), (-0.10, 4, 0.99)])
def test_a_planted_regression_is_found(change: float, repeats: int, least: float, same_experiment: bool):
    found = outcomes(change, repeats, effect=0.03, same_experiment=same_experiment)
    assert found.count(Outcome.REGRESSED) / len(found) >= least


@pytest.mark.parametrize("repeats", [3, 5, 12])
def test_equal_settings_are_called_changed_in_at_most_5_percent(repeats: int):
    found = outcomes(0.0, repeats, effect=0.05)
    changed = found.count(Outcome.REGRESSED) + found.count(Outcome.IMPROVED)
    assert changed / len(found) <= 0.05
    assert found.count(Outcome.UNCHANGED) / len(found) >= 0.9


def test_less_of_a_latency_is_an_improvement():
    before, after = trial(1, [0.50, 0.51, 0.49], "ttft"), trial(2, [0.40, 0.41, 0.39], "ttft")
    assert verdict(before, after, "ttft").outcome is Outcome.IMPROVED
    assert verdict(after, before, "ttft").outcome is Outcome.REGRESSED


def test_too_little_power_is_said_with_the_repeats_that_would_do():
    found = verdict(trial(1, [100.0, 110.0, 90.0]), trial(2, [97.0, 107.0, 88.0]))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.power is not None and found.power < 0.2
    assert found.repeats_needed is not None and found.repeats_needed > 30
    assert f"{found.repeats_needed} repeats of each would do" in found.why


def test_one_run_says_nothing():
    found = verdict(trial(1, [100.0]), trial(2, [50.0]))
    assert (found.outcome, found.low, found.power) == (Outcome.INCONCLUSIVE, None, None)
    assert "an interval needs two of each" in found.why
    nothing = verdict(trial(1, []), trial(2, [50.0]))
    assert (nothing.outcome, nothing.difference, nothing.n_before) == (Outcome.INCONCLUSIVE, None, 0)


def test_a_noise_floor_of_the_nodes_history_holds_a_verdict_back():
    before, after = trial(1, [100.0, 100.1, 99.9]), trial(2, [97.0, 97.1, 96.9])
    assert judge("output_throughput", before, after, 0.01, effect=0.05).outcome is Outcome.REGRESSED
    held = judge("output_throughput", before, after, 0.06, effect=0.05)
    assert held.outcome is Outcome.INCONCLUSIVE
    assert "the noise floor of the node is too high" in held.why


def test_runs_without_any_spread_are_judged_by_the_floor_alone():
    before, after = trial(1, [100.0] * 3), trial(2, [100.0] * 3)
    assert judge("output_throughput", before, after, 0.01, effect=0.05).outcome is Outcome.UNCHANGED
    assert judge("output_throughput", before, after, 0.06, effect=0.05).outcome is Outcome.INCONCLUSIVE


def test_modelled_figures_are_not_judged_by_their_seeds():
    before, after = trial(1, [100.0, 100.1], modelled=True), trial(2, [50.0, 50.1], modelled=True)
    found = verdict(before, after)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "modelled" in found.why


def test_the_size_of_an_effect_is_in_standard_deviations():
    """Means 100 and 97, squared deviations 2 and 2 over 4 degrees of freedom: a spread of 1."""
    found = verdict(trial(1, [99.0, 100.0, 101.0]), trial(2, [96.0, 97.0, 98.0]))
    assert found.effect_size == pytest.approx(-3)
    assert found.relative == pytest.approx(-0.03)


def test_what_is_neither_good_nor_bad_is_refused():
    assert "concurrency" not in JUDGED
    with pytest.raises(ValueError, match="no better direction"):
        judge("concurrency", trial(1, [1.0, 2.0]), trial(2, [1.0, 2.0]), 0.1, effect=0.05)
