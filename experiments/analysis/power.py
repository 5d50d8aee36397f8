"""How large a difference is against the spread of runs, how likely it would have been seen, and how many repeats would
show it. Pure numbers in and out.

Power is asked of an effect that one wants to be told of, never of the one that was found: that would only say again
what the interval says. Two-sided tests at 5 %, by the noncentral t distribution (Cohen 1988).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from experiments.analysis.intervals import t_quantile

ENOUGH = 0.8
MOST_REPEATS = 1000
QUANTILES = 1000


def effect_size_paired(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Cohen's d of pairs: their mean difference in standard deviations of the differences. None where there is no
    spread or one pair alone. Raises ValueError when the lengths differ."""
    if len(before) != len(after):
        raise ValueError(f"{len(before)} values can't be paired with {len(after)}")
    differences = np.subtract(after, before)
    spread = float(np.std(differences, ddof=1)) if len(differences) > 1 else 0.0
    return float(np.mean(differences)) / spread if spread else None


def effect_size_unpaired(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Cohen's d: the difference of the means in pooled standard deviations. None where there is no spread."""
    spread = pooled_spread(before, after)
    return float(np.mean(after) - np.mean(before)) / spread if spread else None


def pooled_spread(*groups: Sequence[float]) -> float | None:
    """The standard deviation within the groups; None where none has two values."""
    freedom = sum(len(group) - 1 for group in groups if len(group))
    if freedom < 1:
        return None
    return math.sqrt(sum(float(np.sum((np.asarray(group) - np.mean(group)) ** 2)) for group in groups) / freedom)


def power_paired(effect: float, pairs: int) -> float:
    """The chance that a difference of `effect` standard deviations of the pairs' differences is seen; 0 of one pair."""
    return _power(abs(effect) * math.sqrt(pairs), pairs - 1)


def power_unpaired(effect: float, before: int, after: int) -> float:
    """The same of two groups of those sizes, `effect` being in standard deviations of a run."""
    if not before or not after:
        return 0.0
    return _power(abs(effect) * math.sqrt(before * after / (before + after)), before + after - 2)


def repeats_needed(effect: float, *, paired: bool, power: float = ENOUGH) -> int | None:
    """The fewest repeats of each setting that show `effect` with `power`; None where over 1,000 would be needed."""

    def reached(repeats: int) -> bool:
        found = power_paired(effect, repeats) if paired else power_unpaired(effect, repeats, repeats)
        return found >= power

    low, high = 2, MOST_REPEATS
    if not reached(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle + 1, high)
    return low


def _power(noncentrality: float, freedom: int) -> float:
    """That |t| passes the two-sided 5 % point when t has this noncentrality: the normal's chance given the measured
    spread, averaged over the spread's own distribution. (scipy's noncentral t gives out at many repeats.)"""
    if freedom < 1:
        return 0.0
    critical = t_quantile(freedom) * _measured_spreads(freedom)
    return float(np.mean(special.ndtr(noncentrality - critical) + special.ndtr(-noncentrality - critical)))


@lru_cache(maxsize=1024)
def _measured_spreads(freedom: int) -> NDArray[np.float64]:
    """Equally likely values of a measured standard deviation whose true one is 1, (QUANTILES,)."""
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    spreads: NDArray[np.float64] = np.sqrt(2 * special.gammaincinv(freedom / 2, levels) / freedom)
    return spreads
