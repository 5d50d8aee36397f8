"""A ladder's waterfall: what each technique adds to all before it, and what they add together. Pure.

A step's gain is the difference between two neighbouring rungs, with its own interval and noise floor: on one node it is
paired over repeats that ran interleaved. Gains are not added up to the total: that is the difference between the last
rung and the first, with an interval of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from experiments.analysis.compare import COMPARED, TrialResult, difference_row, noise_floors, verdict_of

Change = Mapping[str, Any]
"""What `compare.difference_row` gives, with the metric's `unit`."""


@dataclass(frozen=True)
class Rung:
    """One trial of a ladder. `mean` is that of its valid runs. `gain` is over the rung below, None where there is none,
    or where either has no valid run."""

    trial: int
    label: str
    mean: float | None
    n: int
    modelled: bool
    gain: Change | None = None
    verdict: str = ""


@dataclass(frozen=True)
class Waterfall:
    """The rungs from the foot up in one metric; `total` is the last over the first."""

    metric: str
    rungs: tuple[Rung, ...]
    total: Change | None
    total_verdict: str

    @property
    def unit(self) -> str:
        return COMPARED[self.metric][0]

    @property
    def more_is_better(self) -> bool | None:
        return COMPARED[self.metric][1]

    @property
    def modelled(self) -> bool:
        return any(rung.modelled for rung in self.rungs)


def waterfall(labels: Sequence[str], trials: Sequence[TrialResult], metric: str) -> Waterfall:
    """Of the trials of one ladder, its foot first, and what each is called."""
    floors = noise_floors(trials, (metric,))
    gains = [None, *(_change(below, here, metric, floors) for below, here in pairwise(trials))]
    rungs = tuple(_rung(label, trial, metric, gain) for label, trial, gain in zip(labels, trials, gains, strict=True))
    total = _change(trials[0], trials[-1], metric, floors) if len(trials) > 1 else None
    return Waterfall(metric, rungs, total, verdict_of(total) if total else "")


def _change(
    base: TrialResult, trial: TrialResult, metric: str, floors: Mapping[tuple[str, str], float]
) -> Change | None:
    row = difference_row(base, trial, metric, floors)
    return None if row is None else row | {"unit": COMPARED[metric][0]}


def _rung(label: str, trial: TrialResult, metric: str, gain: Change | None) -> Rung:
    values = trial.values(metric)
    mean = fmean(values) if values else None
    return Rung(trial.id, label, mean, len(values), trial.modelled, gain, verdict_of(gain) if gain else "")
