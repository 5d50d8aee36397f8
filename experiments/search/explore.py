"""Which points of a space are tried: all of a small one, else some drawn at random and the rest by what those gave.

Pure. What is wanted of the points once they are tried differs: see experiments.search.best and .front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from experiments.analysis.compare import COMPARED, RunResult
from experiments.search.sampler import Space, Tried, grid_of, size_of, suggest
from experiments.search.seen import Allowed, RunSeen, Settings, Step, TrialSeen, Wanted, key_of

MOST_AT_RANDOM = 10


@dataclass(frozen=True)
class Explored:
    """A trial's figures. `values` has one for each metric, means over valid runs; None without such a run."""

    trial: TrialSeen
    values: tuple[float, ...] | None
    n: int
    holds: bool
    why: str


def explored(trial: TrialSeen, metrics: Sequence[str], runs: Sequence[RunSeen]) -> Explored:
    """What those of its runs say of a trial. It may win where most valid runs met the SLO."""
    ended = [run for run in runs if run.result is not None]
    valid = [(run, found) for run in ended if run.result and run.result.valid and (found := _of(run.result, metrics))]
    breaches = sum(run.slo_met is False for run, _ in valid)
    values = tuple(fmean(column) for column in zip(*(found for _, found in valid), strict=True)) if valid else None
    holds = bool(valid) and 2 * breaches < len(valid)
    return Explored(trial, values, len(valid), holds, "" if holds else _why(ended, breaches))


def _of(result: RunResult, metrics: Sequence[str]) -> tuple[float, ...] | None:
    found = [value for name in metrics if (value := result.values.get(name)) is not None]
    return tuple(found) if len(found) == len(metrics) else None


def _why(ended: Sequence[RunSeen], breaches: int) -> str:
    if breaches:
        return "the objective was not met"
    reasons = [reason for run in ended if run.result for reason in run.result.reasons]
    return ", ".join(dict.fromkeys(reasons)) or "no run has given the figure"


@dataclass(frozen=True)
class Exploring:
    """The trials of one combination of the matrix, `cell`, and what of `space` is to be tried next."""

    cell: Settings
    space: Space
    metrics: tuple[str, ...]
    most: int
    repeats: int
    seed: int
    trials: Sequence[TrialSeen]
    allowed: Allowed

    @cached_property
    def found(self) -> list[Explored]:
        return [
            explored(one, self.metrics, [run for run in one.runs if run.repeat < self.repeats]) for one in self.trials
        ]

    @cached_property
    def step(self) -> Step:
        """`done` where nothing is left to be tried."""
        missing = [one.settings for one in self.trials if len(one.runs) < self.repeats]
        if missing:
            return self._want(missing)
        if size_of(self.space) <= self.most:
            return self._grid()
        at_random = min(MOST_AT_RANDOM, max(2, self.most // 3))
        if len(self.trials) < at_random:
            return self._draw(at_random - len(self.trials))
        if any(trial.is_open for trial in self.trials):
            return Step()
        if len(self.trials) >= self.most:
            return Step(done=f"{len(self.trials)} settings were tried")
        point = self._suggest(self._tried(), len(self.trials))
        if point is None:
            return Step(done=f"no other settings of the space are possible: {len(self.trials)} were tried")
        return self._want([{**self.cell, **point}])

    def _grid(self) -> Step:
        known = {key_of(one.settings) for one in self.trials}
        points = [{**self.cell, **point} for point in grid_of(self.space)]
        left = [point for point in points if key_of(point) not in known and self.allowed(point)]
        if left:
            return self._want(left)
        if any(trial.is_open for trial in self.trials):
            return Step()
        return Step(done=f"all {len(self.trials)} possible settings of the space were tried")

    def _draw(self, number: int) -> Step:
        """Points at random, which need not wait for each other."""
        known = [Tried(self._point(one.settings), None, False) for one in self.trials]
        drawn: list[Settings] = []
        for place in range(len(self.trials), len(self.trials) + number):
            point = self._suggest(known, place)
            if point is None:
                break
            known.append(Tried(point, None, False))
            drawn.append({**self.cell, **point})
        if drawn:
            return self._want(drawn)
        return (
            Step()
            if any(trial.is_open for trial in self.trials)
            else Step(done="no settings of the space are possible")
        )

    def _suggest(self, tried: Sequence[Tried], place: int) -> Settings | None:
        better = [bool(COMPARED[name][1]) for name in self.metrics]
        seed = f"{self.seed}:{key_of(self.cell)}:{place}"
        return suggest(self.space, tried, better, seed, lambda point: self.allowed({**self.cell, **point}))

    def _tried(self) -> list[Tried]:
        return [Tried(self._point(one.trial.settings), one.values, one.holds) for one in self.found]

    def _point(self, settings: Settings) -> dict[str, str | int | float | bool | None]:
        return {path: settings[path] for path in self.space}

    def _want(self, settings: Sequence[Settings]) -> Step:
        return Step(tuple(Wanted(one, self.repeats) for one in settings))
