"""From samples of power to the energy of a window. Pure.

METRICS.md: the trapezoid over the samples, interpolated at the window's edges; that a gap of over 3 s makes it invalid
is for `runners.validity` to say. A window that the samples do not reach across is filled with the nearest one, and the
part that was filled counts as a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class PowerSample(NamedTuple):
    """`watts` at `t_s`, of all chips of the node together."""

    t_s: float
    watts: float


class Energy(NamedTuple):
    """`largest_gap_s` is the longest part of the window without a sample; `samples` lie in it."""

    joules: float
    largest_gap_s: float
    samples: int


def energy_over(samples: Sequence[PowerSample], start_s: float, end_s: float) -> Energy | None:
    """Samples in the order of their times. None without one, or for a window of no length."""
    if not samples or end_s <= start_s:
        return None
    times, watts = (np.asarray(values, dtype=np.float64) for values in zip(*samples, strict=True))
    inside = (times > start_s) & (times < end_s)
    at = np.concatenate(([start_s], times[inside], [end_s]))
    joules = float(np.trapezoid(np.interp(at, times, watts), at))
    return Energy(joules, _largest_gap(times, start_s, end_s), int(inside.sum()))


def _largest_gap(times: np.ndarray, start_s: float, end_s: float) -> float:
    """Between neighbouring samples, of which a gap across an edge counts as a whole; beyond the last one up to the
    edge."""
    edges = [edge for edge, lacking in ((start_s, times[0] > start_s), (end_s, times[-1] < end_s)) if lacking]
    marks = np.sort(np.concatenate((times, edges)))
    first = max(int(np.searchsorted(marks, start_s, side="right")) - 1, 0)
    last = min(int(np.searchsorted(marks, end_s, side="left")), len(marks) - 1)
    within = marks[first : last + 1]
    return float(np.diff(within).max()) if len(within) > 1 else 0.0
