"""One figure of a run as its summary has it, and what a distribution's percentiles need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True)
class Percentile:
    value: float
    enough: bool


@dataclass(frozen=True)
class Metric:
    """One figure of a run. For latencies `value` is the median over requests and `percentiles` has the rest."""

    value: float | None
    unit: str
    n: int
    percentiles: dict[str, Percentile] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        percentiles = {name: {"value": p.value, "enough": p.enough} for name, p in self.percentiles.items()}
        return {"value": self.value, "unit": self.unit, "n": self.n, "percentiles": percentiles}


def samples_needed(percentile: float) -> int:
    """Fewest samples for a tail percentile: P(at most one sample beyond it) ≤ 1 %.

    MLPerf Inference's early-stopping rule with one allowed over-latency sample: 64 for p90, 662 for p99.
    """
    inside = max(percentile, 100 - percentile) / 100
    n = 2
    while inside**n + n * (1 - inside) * inside ** (n - 1) > 0.01:
        n += 1
    return n


_NEEDED = {p: samples_needed(p) for p in PERCENTILES}


def distribution(values: Sequence[float], unit: str) -> Metric:
    if not values:
        return Metric(None, unit, 0)
    array = np.asarray(values, dtype=np.float64)
    points = np.percentile(array, PERCENTILES)
    percentiles = {
        f"p{p}": Percentile(float(v), len(values) >= _NEEDED[p]) for p, v in zip(PERCENTILES, points, strict=True)
    }
    return Metric(float(points[0]), unit, len(values), percentiles)


def slow_tail(metric: Metric, values: Sequence[float]) -> Metric:
    """Interactivity's bad end is the low one: p95 here is the speed that 95 % of users exceed."""
    if not values:
        return metric
    points = np.percentile(np.asarray(values), [100 - p for p in PERCENTILES])
    tail = {f"p{p}": Percentile(float(v), len(values) >= _NEEDED[p]) for p, v in zip(PERCENTILES, points, strict=True)}
    return Metric(metric.value, metric.unit, metric.n, tail)
