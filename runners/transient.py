"""Where a run's beginning ends: from when on its output is steady, by MSER-5. Pure.

A window that opens on an empty engine begins with a transient, in which the batch fills; figures over all of it mix the
two. White's marginal standard error rule (MSER-5: White 1997, Hoad and others 2010) cuts as much of a series' beginning
as makes the mean of the rest the most certain: over batches of five, the cut with the least variance of the remainder
over the square of its length. A least one past the middle says that no steady part was seen. Only the time in which the
load was still being sent is looked at: at the end of a run that ends with its requests the output falls by design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runners.events import RequestRecord
from runners.window import Window

BATCH = 5
BATCHES = 40
LEAST_EVENTS = 4 * BATCH * BATCHES
"""Of tokens that arrived: with fewer, a batch's sum is mostly chance."""


@dataclass(frozen=True)
class Transient:
    """`ends_s` is how long after the window's start the output was steady; None where it was not by half of it."""

    ends_s: float | None
    events: int


def find_transient(measured: Sequence[RequestRecord], window: Window) -> Transient | None:
    """Of the output tokens that arrived while requests were sent; None where they are too few to tell."""
    start_s = window[0]
    end_s = min(window[1], max((record.sent_s for record in measured), default=start_s))
    if end_s <= start_s:
        return None
    times = np.concatenate([np.asarray(record.token_times_s, dtype=np.float64) for record in measured])
    counts = np.concatenate([np.asarray(record.token_counts, dtype=np.float64) for record in measured])
    series, _ = np.histogram(times, BATCH * BATCHES, (start_s, end_s), weights=counts)
    events = int(np.count_nonzero((times >= start_s) & (times <= end_s)))
    if events < LEAST_EVENTS:
        return None
    cut = mser5(series)
    return Transient(None if cut is None else (end_s - start_s) * cut / len(series), events)


def mser5(series: NDArray[np.float64]) -> int | None:
    """How many values of the series' beginning are a transient, a multiple of five; None where no cut by the middle
    is the best."""
    means = series[: len(series) // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    # The last batches are no candidates: a few values that happen to be alike would always win.
    cuts = range(len(means) - BATCH)
    scores = [float(np.var(means[cut:])) / (len(means) - cut) for cut in cuts]
    best = int(np.argmin(scores))
    return BATCH * best if best <= len(means) // 2 else None
