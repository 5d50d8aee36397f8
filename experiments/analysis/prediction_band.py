"""How far the next measured figure may be from its prediction, from how far earlier ones were. Pure.

The ratios of measured to predicted figures of earlier runs, as logarithms, give Student's prediction interval of one
more: mean ± t · s · sqrt(1 + 1/n) (Hahn and Meeker 1991, chapter 4). It takes them for draws of one normal
distribution; runs of other settings err otherwise, which makes it wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

COVERED = 0.9
FEWEST = 5


def next_ratio(ratios: Sequence[float]) -> tuple[float, float] | None:
    """Factors on a prediction between which 90 % of what is measured lies; None where too few ratios tell."""
    logarithms = np.log([ratio for ratio in ratios if ratio > 0])
    n = len(logarithms)
    if n < FEWEST:
        return None
    half = float(stats.t.ppf((1 + COVERED) / 2, n - 1) * np.std(logarithms, ddof=1) * math.sqrt(1 + 1 / n))
    mean = float(np.mean(logarithms))
    return math.exp(mean - half), math.exp(mean + half)
