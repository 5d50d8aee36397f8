"""The whole distribution of each latency of a run, as its quantiles on one fixed grid.

A run's records may be millions; its quantiles are a hundred numbers, from which percentile curves of many runs are
drawn and pooled without a look at the records. Definitions of the latencies are in `runners.metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

GRID: tuple[float, ...] = (0.0, 0.1, 0.5, *(float(p) for p in range(1, 100)), 99.5, 99.9, 100.0)
"""Percent at which quantiles are kept: every whole one, and finer at both ends."""


def distributions(latencies: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    """`{metric: {"n", "quantiles"}}` of each latency's values (`runners.metrics.latency_values`), in their unit at
    GRID, by linear interpolation as the percentiles of the summary. A latency without a value is left out."""
    return {
        name: {"n": len(values), "quantiles": np.percentile(np.asarray(values), GRID).tolist()}
        for name, values in latencies.items()
        if values
    }
