"""Figures that rest on stand-ins for what a vendor has not disclosed: bands, never points. Pure.

Such runs are invalid as evidence, whatever else they are; nothing here is compared, called best or put on a front. A
band is as wide as the stand-ins' own range and no wider: the cost model's error comes on top of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.analysis.compare import COMPARED, RunResult, TrialResult

REASON = "speculative_chip"
# How a figure of a unit goes with the chip's rates: as they do, against them; of any other nothing is known.
FASTER_IS_MORE = ("tok/s", "req/s", "tok/s/chip", "tok/s/kW", "tok/$")
FASTER_IS_LESS = ("s", "J", "$")


@dataclass(frozen=True)
class Band:
    """`n` runs lie behind it."""

    low: float
    high: float
    unit: str
    n: int


Bands = Mapping[int, Mapping[str, Band]]
"""By trial, by metric."""


def bands_of(trial: TrialResult) -> dict[str, Band]:
    """By metric; empty where no run is at fault for nothing but its chip."""
    runs = [run for run in trial.runs if _is_speculative(run)]
    found = {metric: _band(metric, runs) for metric in COMPARED}
    return {metric: band for metric, band in found.items() if band is not None}


def _is_speculative(run: RunResult) -> bool:
    return run.speculative is not None and run.reasons == (REASON,)


def _band(metric: str, runs: list[RunResult]) -> Band | None:
    values = [value for run in runs if (value := run.values.get(metric)) is not None]
    unit = COMPARED[metric][0]
    if not values or unit not in (*FASTER_IS_MORE, *FASTER_IS_LESS):
        return None
    low_x = min(run.speculative[0] for run in runs if run.speculative)
    high_x = max(run.speculative[1] for run in runs if run.speculative)
    median = float(np.median(values))
    if unit in FASTER_IS_LESS:
        low_x, high_x = 1 / high_x, 1 / low_x
    return Band(median * low_x, median * high_x, unit, len(values))


def bands_by_trial(trials: Sequence[TrialResult]) -> dict[int, dict[str, Band]]:
    """Of those trials that have any."""
    return {trial.id: bands for trial in trials if (bands := bands_of(trial))}
