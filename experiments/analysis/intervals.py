"""Intervals for a handful of repeats: one mean, a paired difference, an unpaired one. Pure numbers in and out.

The unit is the run, never the request (METRICS.md). Below 10 values Student's t; from 10 on the bias-corrected and
accelerated bootstrap (Efron 1987) with fixed resamples, so that the same runs always give the same interval. Plain BCa
is too narrow for few values: a resample's spread is smaller by sqrt((n - 1) / n), and its tails are normal, not t's. At
12 values it holds the truth in 90 to 91 % of simulated experiments. So it is expanded (Hesterberg 2015, "What teachers
should know about the bootstrap"): its quantiles are those of t with n - 1 degrees of freedom, times sqrt(n / (n - 1)).
The tests hold every method here to 93 to 97 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

CONFIDENCE = 0.95
BOOTSTRAP_FROM = 10
RESAMPLES = 4999


@dataclass(frozen=True)
class Interval:
    """A 95 % interval; `low` and `high` are None where the values are too few to give one."""

    estimate: float
    low: float | None
    high: float | None
    n: int
    method: str

    @property
    def excludes_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of `values` with its interval: t below 10 values, BCa bootstrap from 10 on."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Interval(mean, None, None, n, "single value")
    if min(values) == max(values):
        return Interval(mean, mean, mean, n, "no spread")
    if n < BOOTSTRAP_FROM:
        half = t_quantile(n - 1) * math.sqrt(_squares(values, mean) / (n - 1) / n)
        return Interval(mean, mean - half, mean + half, n, "t")
    low, high = _expanded_bca(np.asarray(values, dtype=np.float64))
    return Interval(mean, low, high, n, "BCa bootstrap")


def _squares(values: Sequence[float], mean: float) -> float:
    """Of the deviations. In plain floats: of a handful of values that is faster than arrays."""
    return math.fsum((value - mean) ** 2 for value in values)


@lru_cache(maxsize=4096)
def t_quantile(freedom: float) -> float:
    """Student's t at the upper end of a 95 % interval."""
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _expanded_bca(values: NDArray[np.float64]) -> tuple[float, float]:
    """Ends for the mean of `values`, (n,), which must not all be equal."""
    n = len(values)
    deviations = values - np.mean(values)
    means = _resample_shares(n) @ deviations
    bias = special.ndtri((np.count_nonzero(means < 0) + np.count_nonzero(means <= 0)) / 2 / RESAMPLES)
    # the jackknife's acceleration, which has a closed form for a mean
    squares = float(deviations @ deviations)
    acceleration = float((deviations * deviations) @ deviations / (6 * squares**1.5))
    reach = t_quantile(n - 1) * math.sqrt(n / (n - 1))
    shifted = bias + np.array([-reach, reach])
    low, high = special.ndtr(bias + shifted / (1 - acceleration * shifted))
    mean, spread = float(np.mean(values)), math.sqrt(squares) / n
    # The upper end is the mirrored values' lower one: both lie in a tail, and only that is sorted.
    return mean + _low_quantile(means, low, spread), mean - _low_quantile(-means, 1 - high, spread)


def _low_quantile(values: NDArray[np.float64], share: float, spread: float) -> float:
    """`np.quantile` for a small share of many values about 0 with that standard deviation, several times as fast: it
    sorts only those that may matter."""
    place = share * (len(values) - 1)
    below = int(place)
    # Where normal values would do; where these hold too few below, all are sorted.
    bound = float(special.ndtri(min(share + 0.01, 0.5))) * spread
    tail = np.sort(values[values < bound])
    if len(tail) < below + 2:
        tail = np.sort(values)
    upper = tail[min(below + 1, len(tail) - 1)]
    return float(tail[below] + (upper - tail[below]) * (place - below))


@lru_cache(maxsize=32)
def _resample_shares(n: int) -> NDArray[np.float64]:
    """How much of each resample's mean each value makes, (RESAMPLES, n)."""
    drawn = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    cells = drawn + n * np.arange(RESAMPLES)[:, None]
    return np.bincount(cells.ravel(), minlength=RESAMPLES * n).reshape(RESAMPLES, n) / n


def reciprocal_interval(values: Sequence[float]) -> Interval:
    """Of a cost per output at one price: the interval of the output per cost, turned over, so that the cost is known as
    well as the throughput that it rests on (METRICS.md), and never below 0."""
    if min(values) <= 0:
        return mean_interval(values)
    found = mean_interval([1 / value for value in values])
    method = f"{found.method} of output per cost"
    if found.low is None or found.high is None or found.low <= 0:
        return Interval(1 / found.estimate, None, None, found.n, method if found.n > 1 else found.method)
    return Interval(1 / found.estimate, 1 / found.high, 1 / found.low, found.n, method)


def paired_interval(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Mean of `after − before` over pairs that ran interleaved. Raises ValueError when the lengths differ."""
    if len(before) != len(after):
        raise ValueError(f"{len(before)} values can't be paired with {len(after)}")
    found = mean_interval([b - a for a, b in zip(before, after, strict=True)])
    return Interval(found.estimate, found.low, found.high, found.n, f"paired {found.method}")


def welch_interval(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Difference of means for runs of different nodes, variances not assumed equal (Welch 1947)."""
    estimate = float(np.mean(after) - np.mean(before))
    n = min(len(before), len(after))
    if n < 2:
        return Interval(estimate, None, None, n, "single value")
    if np.std(before) == 0 and np.std(after) == 0:
        return Interval(estimate, estimate, estimate, n, "no spread")
    one, two = (float(np.var(values, ddof=1)) / len(values) for values in (before, after))
    freedom = (one + two) ** 2 / (one**2 / (len(before) - 1) + two**2 / (len(after) - 1))
    half = t_quantile(freedom) * math.sqrt(one + two)
    return Interval(estimate, estimate - half, estimate + half, n, "Welch t")


def noise_floor(groups: Sequence[Sequence[float]]) -> float | None:
    """Relative half-width within which two means of equal settings lie 95 % of the time: the A/A spread.

    `groups` holds the repeats of each setting on one node. Every group's deviations from its own mean, as shares of
    it, are pooled; the floor is for a difference of two means of the groups' mean size. None without any repeat.
    """
    usable = [(group, mean) for group in groups if len(group) >= 2 and (mean := math.fsum(group) / len(group)) != 0]
    freedom = sum(len(group) - 1 for group, _ in usable)
    if not freedom:
        return None
    squares = math.fsum(_squares(group, mean) / mean**2 for group, mean in usable)
    size = sum(len(group) for group, _ in usable) / len(usable)
    return t_quantile(freedom) * math.sqrt(squares / freedom * 2 / size)
