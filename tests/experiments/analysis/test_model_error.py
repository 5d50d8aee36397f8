"""What a modelled figure's interval is: its calibration's error, and nothing where that is not known."""

from __future__ import annotations

import math

import pytest

from experiments.analysis.compare import RunResult, TrialResult, compare_trials
from experiments.analysis.model_error import model_difference, model_interval

ERRORS = {
    "rate": {"scope": "rate: vLLM x hopper", "n": 72, "low": math.log(0.8), "high": math.log(1.25)},
    "latency": {"scope": "latency: vLLM", "n": 230, "low": math.log(0.5), "high": math.log(2.0)},
}


def modelled(trial_id: int, throughput: float, errors: dict) -> TrialResult:
    values = {"output_throughput": throughput, "queue_wait": 1.0}
    runs = tuple(
        RunResult(10 * trial_id + i, i, "m", True, True, (), 10, values, errors if i else ERRORS) for i in range(2)
    )
    return TrialResult(trial_id, 1, {"x": trial_id}, runs)


def test_a_figure_lies_in_the_band_that_held_ninety_percent_of_published_ones():
    band = model_interval("output_throughput", 1000.0, 3, ERRORS)
    assert (band.low, band.high) == pytest.approx((800.0, 1250.0))
    assert "n = 72" in band.method and "vLLM x hopper" in band.method


def test_a_figure_that_falls_as_the_error_rises_has_the_band_upside_down():
    band = model_interval("interactivity", 100.0, 1, ERRORS | {"latency": {**ERRORS["latency"], "high": math.log(4.0)}})
    assert (band.low, band.high) == pytest.approx((25.0, 200.0))


@pytest.mark.parametrize("metric", ["queue_wait", "ttft"])
def test_a_figure_whose_error_nobody_knows_has_no_interval(metric):
    band = model_interval(metric, 1.0, 1, ERRORS)
    assert (band.low, band.high, band.method) == (None, None, "uncalibrated")


def test_a_difference_adds_both_errors_and_is_unknown_if_either_is():
    band = model_difference("output_throughput", (100.0, ERRORS), (200.0, ERRORS), 2)
    assert band.low == pytest.approx(100 - math.hypot(25, 40))
    assert band.high == pytest.approx(100 + math.hypot(20, 50))
    assert model_difference("output_throughput", (100.0, {}), (200.0, ERRORS), 2).low is None


def test_trials_carry_the_band_and_one_of_two_calibrations_none():
    found = compare_trials([modelled(1, 1000.0, ERRORS), modelled(2, 1000.0, {})])
    first, second = (entry["metrics"]["output_throughput"] for entry in found["trials"])
    assert (first["low"], first["high"]) == pytest.approx((800.0, 1250.0))
    assert second["low"] is None and second["method"] == "uncalibrated"
