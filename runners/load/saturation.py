"""Whether an open loop has more to send than the server can serve, so that waiting longer would show nothing new.

Past saturation the backlog grows without end: each request waits longer than the one before by what the server falls
behind. So an open loop is over-saturated when, over the last half of its window, the requests in flight grew from each
part to the next, and the time to a first token grew by more than a set share of the time that passed. A ramp's
transient has the first without the second; a burst that is worked off has neither for long enough. Pure: ticks in,
a verdict out. It stops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, linear_regression
from typing import Any

REASON = "over_saturated"
LEAST_S = 20.0
"""Of the window, before anything is said."""
PARTS = 8
"""Of the last half of the window. Of values without a trend, one in 40,320 orders ascends so."""
LOOK_EVERY = 4
"""Ticks."""
LEAST_IN_FLIGHT = 32
LEAST_TTFT_SLOPE = 0.05
"""Seconds by which the time to a first token grew per second: 1 − capacity / offered load, once past saturation."""


class SaturationWatch:
    """For the measured window of one open loop."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._ticks: list[tuple[float, int, float | None]] = []

    def take(self, tick: Mapping[str, Any]) -> dict[str, Any] | None:
        """After each tick (`runners.load.ticks`) of the window; the verdict's figures once it is over-saturated."""
        if self._since_s is None:
            self._since_s = tick["t_s"] - tick["interval_s"]
        self._ticks.append((tick["t_s"], tick["in_flight"], tick["ttft_p50_s"]))
        elapsed_s = tick["t_s"] - self._since_s
        if elapsed_s < LEAST_S or tick["in_flight"] < LEAST_IN_FLIGHT or len(self._ticks) % LOOK_EVERY:
            return None
        half_s = self._since_s + elapsed_s / 2
        return judge([one for one in self._ticks if one[0] >= half_s], elapsed_s)


def judge(ticks: Sequence[tuple[float, int, float | None]], elapsed_s: float) -> dict[str, Any] | None:
    """Of ticks as (s, in flight, median TTFT or None): what shows over-saturation, None where they don't show it."""
    if len(ticks) < 2 * PARTS:
        return None
    edges = [len(ticks) * place // PARTS for place in range(PARTS + 1)]
    in_flight = [fmean(one[1] for one in ticks[begin:end]) for begin, end in pairwise(edges)]
    if any(later <= earlier for earlier, later in pairwise(in_flight)):
        return None
    told = [(t_s, ttft_s) for t_s, _, ttft_s in ticks if ttft_s is not None]
    if len(told) < PARTS:
        return None
    slope = linear_regression([t_s for t_s, _ in told], [ttft_s for _, ttft_s in told]).slope
    if slope < LEAST_TTFT_SLOPE:
        return None
    return {
        "after_s": elapsed_s,
        "in_flight": ticks[-1][1],
        "in_flight_before": round(in_flight[0]),
        "ttft_slope": slope,
        "ttft_slope_threshold": LEAST_TTFT_SLOPE,
    }
