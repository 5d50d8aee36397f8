"""Intervals for a handful of repeats: one mean, a paired difference, an unpaired one. Pure numbers in and out.

The unit is the run, never the request (METRICS.md). Below 10 values Student's t; from 10 on the bias-corrected and
accelerated bootstrap (Efron 1987) with a fixed seed, so that the same runs always give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

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
    mean = float(np.mean(values))
    if n < 2:
        return Interval(mean, None, None, n, "single value")
    spread = float(np.std(values, ddof=1))
    if spread == 0:
        return Interval(mean, mean, mean, n, "no spread")
    if n < BOOTSTRAP_FROM:
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * spread / math.sqrt(n)
        return Interval(mean, mean - half, mean + half, n, "t")
    found = stats.bootstrap(
        (np.asarray(values),),
        np.mean,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(mean, float(found.low), float(found.high), n, "BCa bootstrap")


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
    found = stats.ttest_ind(after, before, equal_var=False).confidence_interval(CONFIDENCE)
    return Interval(estimate, float(found.low), float(found.high), n, "Welch t")


def noise_floor(groups: Sequence[Sequence[float]]) -> float | None:
    """Relative half-width within which two means of equal settings lie 95 % of the time: the A/A spread.

    `groups` holds the repeats of each setting on one node. Every group's deviations from its own mean, as shares of
    it, are pooled; the floor is for a difference of two means of the groups' mean size. None without any repeat.
    """
    usable = [np.asarray(group, dtype=np.float64) for group in groups if len(group) >= 2 and np.mean(group) != 0]
    freedom = sum(len(group) - 1 for group in usable)
    if not freedom:
        return None
    squares = sum(float(np.sum((group / np.mean(group) - 1) ** 2)) for group in usable)
    pooled = math.sqrt(squares / freedom)
    size = float(np.mean([len(group) for group in usable]))
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * pooled * math.sqrt(2 / size)
