"""What a trace is like, in figures: how long it is and takes, its lengths, its rate, and how much of it is shared.

Gathered in one pass, in bounded memory. Shared is what earlier rows of the same trace have already brought: the blocks
of prefix ids seen before, which a prefix cache without end would hold.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from runners.traces.rows import TraceRow

MOST_IDS = 4_000_000
PERCENTILES = (50, 90, 95, 99)
BARS = 40
Array = npt.NDArray[np.float64]


class TraceFigures:
    """Takes rows in any order; `as_json` gives the figures, times counted from the first."""

    def __init__(self) -> None:
        self._times_s = array("d")
        self._inputs = array("q")
        self._outputs = array("q")
        self._ids = array("q")
        self._rows_of_ids = 0
        self._sessions: set[int] = set()
        self._classes: dict[str, int] = {}

    def take(self, row: TraceRow) -> None:
        self._times_s.append(row.timestamp_s)
        self._inputs.append(row.input_tokens)
        self._outputs.append(row.output_tokens)
        if row.prefix_ids and len(self._ids) + len(row.prefix_ids) <= MOST_IDS:
            self._ids.extend(row.prefix_ids)
            self._rows_of_ids += 1
        if row.session is not None:
            self._sessions.add(hash(row.session))
        if row.traffic_class is not None and (row.traffic_class in self._classes or len(self._classes) < BARS):
            self._classes[row.traffic_class] = self._classes.get(row.traffic_class, 0) + 1

    def as_json(self) -> dict[str, Any]:
        """There must have been a row."""
        times_s = np.sort(np.frombuffer(self._times_s, dtype=np.float64))
        times_s -= times_s[0]
        inputs = np.frombuffer(self._inputs, dtype=np.int64).astype(np.float64)
        outputs = np.frombuffer(self._outputs, dtype=np.int64).astype(np.float64)
        duration_s = float(times_s[-1])
        return {
            "rows": len(times_s),
            "extent": self._extent(duration_s),
            "duration_s": duration_s,
            "request_rate": (len(times_s) - 1) / duration_s if duration_s > 0 else None,
            "gap_cv": _gap_cv(times_s),
            "input_tokens": _lengths(inputs),
            "output_tokens": _lengths(outputs),
            "sharing_rate": self._sharing_rate(),
            "sessions": len(self._sessions) or None,
            "classes": self._classes or None,
            "histograms": {
                "input_tokens": histogram(inputs, logarithmic=True),
                "output_tokens": histogram(outputs, logarithmic=True),
                "arrivals": histogram(times_s) if duration_s > 0 else None,
            },
        }

    def _extent(self, duration_s: float) -> dict[str, Any]:
        """runners.spec.TraceExtent of the whole trace, as a mapping."""
        inputs, outputs = np.frombuffer(self._inputs, dtype=np.int64), np.frombuffer(self._outputs, dtype=np.int64)
        return {
            "requests": len(inputs),
            "lasts_s": duration_s,
            "longest_input": int(inputs.max()),
            "longest_output": int(outputs.max()),
            "longest": int((inputs + outputs).max()),
            "input_tokens": int(inputs.sum()),
            "output_tokens": int(outputs.sum()),
        }

    def _sharing_rate(self) -> dict[str, Any] | None:
        """The share of blocks that came before, and over how many of the first rows it is counted."""
        if not self._ids:
            return None
        ids = np.frombuffer(self._ids, dtype=np.int64)
        return {"share": 1.0 - len(np.unique(ids)) / len(ids), "rows_counted": self._rows_of_ids}


def histogram(values: Array, logarithmic: bool = False) -> dict[str, list[float]]:
    """Bars as their bounds (one more than bars) and the count in each."""
    low, high = float(values.min()), float(values.max())
    if logarithmic:
        bounds = np.geomspace(low, max(high, low + 1), BARS + 1)
    else:
        bounds = np.linspace(low, high, BARS + 1)
    bounds[0], bounds[-1] = low, max(high, low + 1) if logarithmic else high
    counts, _ = np.histogram(values, bounds)
    return {"bounds": bounds.tolist(), "counts": counts.tolist()}


def _lengths(values: Array) -> dict[str, float]:
    found = np.percentile(values, PERCENTILES)
    figures = {"min": float(values.min()), "mean": float(values.mean())}
    return figures | {f"p{p}": float(v) for p, v in zip(PERCENTILES, found, strict=True)} | {"max": float(values.max())}


def _gap_cv(times_s: Array) -> float | None:
    """Coefficient of variation of the gaps between arrivals: 1 for a Poisson process, higher is burstier."""
    gaps = np.diff(times_s)
    return float(gaps.std() / gaps.mean()) if len(gaps) > 1 and gaps.mean() > 0 else None
