"""How far a modelled figure may be off: the error that its cost model had on published results it was not fitted on.

A figure is bounded where the calibration knows the error of its quantity; any other has no interval and is called
"uncalibrated". The band holds 90 % of measured figures. Seeds do not enter: their spread says nothing of the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from experiments.analysis.intervals import Interval

UNCALIBRATED = "uncalibrated"
Errors = Mapping[str, Mapping[str, Any]]

# The quantity whose error bounds a metric, and whether the metric falls as that quantity rises.
BOUNDED_BY: dict[str, tuple[str, bool]] = {
    "output_throughput": ("rate", False),
    "total_throughput": ("rate", False),
    "request_throughput": ("rate", False),
    "output_throughput_per_chip": ("rate", False),
    "output_tokens_per_usd": ("rate", False),
    "cost_per_million_output_tokens": ("rate", True),
    "output_throughput_per_kw": ("energy", True),
    "energy_per_output_token": ("energy", False),
    "energy_per_million_output_tokens": ("energy", False),
    "energy_per_request": ("energy", False),
    "tpot": ("latency", False),
    "itl": ("latency", False),
    "interactivity": ("latency", True),
    "ttft": ("ttft", False),
    "effective_ttft": ("ttft", False),
}


def model_interval(metric: str, estimate: float, n: int, errors: Errors) -> Interval:
    """The band of one modelled figure."""
    found = _band(metric, errors)
    if found is None:
        return Interval(estimate, None, None, n, UNCALIBRATED)
    low, high, method = found
    return Interval(estimate, estimate * low, estimate * high, n, method)


def model_difference(metric: str, before: tuple[float, Errors], after: tuple[float, Errors], n: int) -> Interval:
    """The band of the difference of two modelled figures, as if their errors had nothing in common: figures of one chip
    and engine err together, so this is wider than it need be, and never narrower."""
    estimate = after[0] - before[0]
    bands = [_band(metric, errors) for _, errors in (before, after)]
    if bands[0] is None or bands[1] is None:
        return Interval(estimate, None, None, n, UNCALIBRATED)
    (low_0, high_0, method), (low_1, high_1, _) = bands[0], bands[1]
    down = math.hypot(before[0] * (high_0 - 1), after[0] * (1 - low_1))
    up = math.hypot(before[0] * (1 - low_0), after[0] * (high_1 - 1))
    return Interval(estimate, estimate - down, estimate + up, n, method)


def _band(metric: str, errors: Errors) -> tuple[float, float, str] | None:
    """Factors on a figure, lower and upper, and where they come from."""
    quantity, falls = BOUNDED_BY.get(metric, ("", False))
    error = errors.get(quantity)
    if error is None:
        return None
    low, high = math.exp(error["low"]), math.exp(error["high"])
    if falls:
        low, high = 1 / high, 1 / low
    return low, high, f"90 % band of the calibration error, {error['scope']}, n = {error['n']}"
