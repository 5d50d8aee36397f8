"""The distribution of a latency over all requests of a trial, pooled from its runs' stored quantiles. Pure.

Each run's cumulative curve is linear between its quantiles (runners.distributions.GRID); the pooled curve is their
mean, weighted by requests, which is the curve of all requests together up to the grid's resolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.distributions import GRID

SHARES = np.asarray(GRID) / 100


@dataclass(frozen=True)
class Pooled:
    """`shares[i]` of all `n` values, from `runs` runs, are at most `values[i]`; both ascend."""

    n: int
    runs: int
    values: tuple[float, ...]
    shares: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """The value that this share of all values does not exceed."""
        return float(np.interp(share, self.shares, self.values))


def pool(distributions: Sequence[Mapping[str, Any] | None], metric: str) -> Pooled | None:
    """All runs' values of one metric as one distribution; None where no run has any."""
    found = [one[metric] for one in distributions if one and metric in one]
    if not found:
        return None
    counts = np.asarray([one["n"] for one in found], dtype=np.float64)
    curves = [np.asarray(one["quantiles"], dtype=np.float64) for one in found]
    values = np.unique(np.concatenate(curves))
    shares = sum(count * _share_at_most(values, curve) for count, curve in zip(counts, curves, strict=True))
    return Pooled(int(counts.sum()), len(found), tuple(values), tuple(shares / counts.sum()))


def _share_at_most(values: NDArray[np.float64], curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The run's cumulative curve at `values`. Where it stands (many equal requests) its upper end counts."""
    distinct, last = np.unique(curve[::-1], return_index=True)
    shares: NDArray[np.float64] = np.interp(values, distinct, SHARES[::-1][last], left=0.0, right=1.0)
    return shares
