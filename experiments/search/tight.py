"""Repeats until a figure's interval is tight enough in every trial. Pure.

Every trial gets each repeat, so that they stay paired. The interval is the one that comparisons show. That it is looked
at after every repeat makes it hold the truth a little less often than 95 %, the more so the fewer repeats there are at
least; `min` is there for that. A modelled trial's interval is its cost model's error, which no repeat makes smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.analysis.intervals import mean_interval
from experiments.search.seen import Settings, Step, TrialSeen, Wanted
from runners.spec import Until


@dataclass(frozen=True)
class Tightness:
    """`half_width` of the 95 % interval, as a share of the mean; None where the runs give none."""

    settings: Settings
    trial: int
    half_width: float | None
    n: int
    modelled: bool

    def needs_more(self, interval: float) -> bool:
        """False also where more would not help: of a modelled trial, and of one that no run has given a figure."""
        if self.modelled or not self.n:
            return False
        return self.half_width is None or self.half_width > interval


def half_width(values: Sequence[float]) -> float | None:
    """Of the mean's 95 % interval, relative to the mean."""
    if len(values) < 2:
        return None
    interval = mean_interval(values)
    if interval.low is None or interval.high is None:
        return None
    half = (interval.high - interval.low) / 2
    if not interval.estimate:
        return 0.0 if not half else math.inf
    return half / abs(interval.estimate)


@dataclass(frozen=True)
class TightCourse:
    until: Until
    cells: Sequence[Settings]
    trials: Sequence[TrialSeen]

    @cached_property
    def trials_now(self) -> list[Tightness]:
        return [self._tightness(trial) for trial in self.trials]

    def _tightness(self, trial: TrialSeen) -> Tightness:
        valid = [run.result for run in trial.runs if run.result is not None and run.result.valid]
        values = [value for one in valid if (value := one.values.get(self.until.metric)) is not None]
        modelled = any(one.modelled for one in valid)
        return Tightness(trial.settings, trial.id, None if modelled else half_width(values), len(values), modelled)

    @cached_property
    def step(self) -> Step:
        repeats = max((len(trial.runs) for trial in self.trials), default=0)
        if repeats < self.until.min:
            return self._all(self.until.min)
        if any(len(trial.runs) < repeats for trial in self.trials):
            return self._all(repeats)
        if any(trial.is_open for trial in self.trials):
            return Step()
        wide = [one for one in self.trials_now if one.needs_more(self.until.interval)]
        if not wide:
            return Step(done=self._why_enough())
        if repeats >= self.until.max:
            return Step(done=f"{self.until.max} repeats are the most; {self._wider(wide)}")
        return self._all(repeats + 1)

    def _all(self, repeats: int) -> Step:
        return Step(tuple(Wanted(cell, repeats) for cell in self.cells))

    def _wider(self, wide: Sequence[Tightness]) -> str:
        return (
            f"the interval of {self.until.metric} is wider than ±{self.until.interval:.1%} in {len(wide)} of "
            f"{len(self.trials_now)} trials"
        )

    @property
    def said(self) -> str:
        wide = [one for one in self.trials_now if one.needs_more(self.until.interval)]
        return self._wider(wide) if wide else self._why_enough()

    def _why_enough(self) -> str:
        modelled = sum(one.modelled for one in self.trials_now)
        without = sum(not one.n for one in self.trials_now)
        tight = len(self.trials_now) - modelled - without
        said = []
        if tight:
            said.append(
                f"the interval of {self.until.metric} is within ±{self.until.interval:.1%} in {tight} of "
                f"{len(self.trials_now)} trials"
            )
        if modelled:
            said.append(
                f"modelled trials ({modelled}): their interval is the cost model’s error, which repeats don’t change"
            )
        if without:
            said.append(f"in {without} no valid run has the figure")
        return "; ".join(said)

    def as_json(self) -> dict[str, Any]:
        return {
            "said": self.said,
            "done": bool(self.step.done),
            "metric": self.until.metric,
            "interval": self.until.interval,
            "trials": [
                {
                    "trial": one.trial,
                    "settings": dict(one.settings),
                    "half_width": one.half_width if one.half_width is None or math.isfinite(one.half_width) else None,
                    "n": one.n,
                    "modelled": one.modelled,
                    "enough": not one.needs_more(self.until.interval),
                }
                for one in self.trials_now
            ],
        }
