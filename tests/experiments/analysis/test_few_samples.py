"""A percentile of too few samples says so wherever trials are compared."""

from __future__ import annotations

from experiments.analysis.compare import RunResult, TrialResult, compare_trials, few_samples, flatten_metrics
from experiments.templatetags.lab import between_samples, change, interval

TTFT = {"value": 0.2, "n": 40, "percentiles": {"p95": {"value": 0.5, "enough": False}}}
TPOT = {"value": 0.02, "n": 400, "percentiles": {"p95": {"value": 0.05, "enough": True}}}
SUMMARY = {"metrics": {"ttft": TTFT, "tpot": TPOT, "goodput": {"value": 1.0, "n": 40, "percentiles": {}}}}


def run(number: int, few: dict[str, int]) -> RunResult:
    return RunResult(number, number, "bench", False, True, (), 10, flatten_metrics(SUMMARY), few=few)


def test_the_least_count_of_a_trials_runs_is_told() -> None:
    assert few_samples(SUMMARY) == {"ttft_p95": 40}
    trial = TrialResult(1, 1, {}, (run(0, {"ttft_p95": 40}), run(1, {"ttft_p95": 12}), run(2, {})))
    metrics = compare_trials([trial])["trials"][0]["metrics"]
    assert metrics["ttft_p95"]["few"] == 12
    assert metrics["tpot_p95"]["few"] is None and metrics["ttft"]["few"] is None
    cell = interval(metrics["ttft_p95"])
    assert 'class="few"' in cell and "of 12 samples" in cell
    assert "few" not in interval(metrics["tpot_p95"])


def test_a_change_is_shown_with_its_interval_its_floor_and_its_n() -> None:
    row = {"relative": 0.1, "difference": 10.0, "low": 5.0, "high": 15.0, "noise_floor": 0.02, "n": 3}
    assert change(row) == "+10.0\u00a0%<small>+5.00 … +15.0, floor 2.00\u00a0%, n 3</small>"
    falling = row | {"relative": -0.1, "difference": -10.0, "low": -15.0, "high": -5.0}
    assert "−15.0 … −5.00" in change(falling)
    lone = row | {"low": None, "high": None, "noise_floor": None, "n": 1}
    assert change(lone).endswith("<small>no interval, no noise floor, n 1</small>")


def test_a_percentile_that_is_no_sample_itself_lies_between_two() -> None:
    assert between_samples(128, "p95") and between_samples(2, "p50")
    assert not between_samples(101, "p95") and not between_samples(3, "p50")
    assert not between_samples(1, "p99") and not between_samples(0, "p99")
