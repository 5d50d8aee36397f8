"""The highest load under an SLO: doubling until a level breaches, then bisection, then both ends measured again. Pure.

What is known of a level is what its runs say, so a level that passed once and fails when it is confirmed moves the
answer, and the search goes on from there. The upper end is a breach that was measured, or there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from experiments.search.seen import Allowed, RunSeen, Settings, Step, TrialSeen, Wanted
from runners.spec import LoadSearch

# Of an open loop: more arrives than is served. In a closed loop it says only that the run was short.
SATURATED = "no_steady_state"
# Why a run may be invalid and still tell whether its level holds: the load itself brought it about.
BY_LOAD = frozenset({"errors_over_1pct", SATURATED, "oversaturated"})
MORE_TRIES = 2
"""How many runs more a level gets where some told nothing."""


class Said(StrEnum):
    """What a run, or all runs of a level, say of that level."""

    PASSED = "passed"
    BREACHED = "breached"
    UNJUDGED = "unjudged"
    OPEN = "open"


@dataclass(frozen=True)
class Judged:
    said: Said
    why: str = ""


def judge_run(run: RunSeen, search: LoadSearch, *, open_loop: bool) -> Judged:
    """Whether the level held in this run. A run that failed, or is invalid for what is not the load's doing, tells
    nothing."""
    if run.result is None:
        return Judged(Said.OPEN)
    if not run.succeeded:
        return Judged(Said.UNJUDGED, "the run did not succeed")
    by_load = BY_LOAD if open_loop else BY_LOAD - {SATURATED}
    few = run.success is not None and run.success < search.min_success
    # where most requests fail, too few are left for other reasons to mean anything
    others = [] if few else [reason for reason in run.result.reasons if reason not in by_load]
    if others:
        return Judged(Said.UNJUDGED, ", ".join(others))
    if few:
        return Judged(Said.BREACHED, f"{run.success:.1%} of the requests were ok, below {search.min_success:.0%}")
    if set(run.result.reasons) & {SATURATED, "oversaturated"}:
        return Judged(Said.BREACHED, "saturated: more arrived than was served")
    if run.success is None or run.slo_met is None:
        return Judged(Said.UNJUDGED, "it is not known whether the objective was met")
    return Judged(Said.PASSED) if run.slo_met else Judged(Said.BREACHED, "the objective was not met")


@dataclass(frozen=True)
class Level:
    """One load that was tried. `runs` are what each said, in the order of repeats."""

    load: float
    trial: int
    runs: tuple[Judged, ...]
    run_ids: tuple[int, ...]
    passed_by_all: bool

    def count(self, said: Said) -> int:
        return sum(one.said is said for one in self.runs)

    @property
    def said(self) -> Said:
        if self.count(Said.OPEN):
            return Said.OPEN
        passed, breached = self.count(Said.PASSED), self.count(Said.BREACHED)
        if not passed + breached:
            return Said.UNJUDGED
        holds = breached == 0 if self.passed_by_all else passed > breached
        return Said.PASSED if holds else Said.BREACHED

    @property
    def judged(self) -> int:
        return self.count(Said.PASSED) + self.count(Said.BREACHED)

    @property
    def why(self) -> str:
        """Of what it says, the reasons found."""
        return "; ".join(dict.fromkeys(one.why for one in self.runs if one.said is self.said and one.why))


@dataclass(frozen=True)
class LoadCourse:
    """The search of one combination of the matrix, `cell`."""

    search: LoadSearch
    cell: Settings
    trials: Sequence[TrialSeen]
    allowed: Allowed
    open_loop: bool

    @cached_property
    def levels(self) -> list[Level]:
        """In rising order."""
        return sorted((self._level(trial) for trial in self.trials), key=lambda level: level.load)

    def _level(self, trial: TrialSeen) -> Level:
        runs = sorted(trial.runs, key=lambda run: run.repeat)
        judged = tuple(judge_run(run, self.search, open_loop=self.open_loop) for run in runs)
        ids = tuple(run.result.id for run in runs if run.result is not None)
        load = float(trial.settings[self.search.path] or 0)
        return Level(load, trial.id, judged, ids, self.search.confirm_by == "all")

    @property
    def lower(self) -> Level | None:
        """The highest level that passed below every breach."""
        upper = self.upper
        below = [one for one in self.levels if one.said is Said.PASSED and (upper is None or one.load < upper.load)]
        return below[-1] if below else None

    @property
    def upper(self) -> Level | None:
        """The lowest level that breached."""
        return next((one for one in self.levels if one.said is Said.BREACHED), None)

    @cached_property
    def step(self) -> Step:
        for level in self.levels:
            if level.said is Said.OPEN:
                return Step()
        for level in self.levels:
            if level.said is Said.UNJUDGED:
                if len(level.runs) <= MORE_TRIES:
                    return self._more(level.load, len(level.runs) + 1)
                return self._end(f"{self._of(level.load)} could not be judged: {level.why}")
        load = self._next_load()
        if load is None:
            return self._confirm()
        if not self.allowed(self._settings(load)):
            return self._end(f"no node takes {self._of(load)}")
        return self._more(load, 1)

    def _next_load(self) -> float | None:
        """The level to try next, None where the ends are near enough."""
        lower, upper, low, high = self.lower, self.upper, self.search.low, self.search.high
        if lower is None:
            return None if upper is not None and upper.load <= low else low
        if upper is None:
            return None if lower.load >= high else min(2 * lower.load, high)
        return self._between(lower.load, upper.load)

    def _between(self, low: float, high: float) -> float | None:
        if self.search.whole:
            near = high - low <= max(1, int(self.search.tolerance * low))
            return None if near else float((int(low) + int(high)) // 2)
        # four digits are far finer than any tolerance that is allowed
        middle = float(f"{math.sqrt(low * high):.4g}")
        return None if high / low - 1 <= self.search.tolerance or not low < middle < high else middle

    def _confirm(self) -> Step:
        """The ends measured again. By `all`, one breach is enough to call a level breached."""
        ends = [self.lower] if self.search.confirm_by == "all" else [self.lower, self.upper]
        for level in ends:
            if level is None or level.judged >= self.search.confirm:
                continue
            runs = len(level.runs) + self.search.confirm - level.judged
            if runs <= self.search.confirm + MORE_TRIES:
                return self._more(level.load, runs)
            return self._end(f"{self._of(level.load)} could not be confirmed: {level.runs[-1].why}")
        return self._end(self.said)

    def _more(self, load: float, runs: int) -> Step:
        return Step((Wanted(self._settings(load), runs),))

    @staticmethod
    def _end(why: str) -> Step:
        return Step(done=why)

    def _settings(self, load: float) -> dict[str, Any]:
        return {**self.cell, self.search.path: int(load) if self.search.whole else load}

    def _of(self, load: float) -> str:
        return f"{load:g} users at once" if self.search.whole else f"{load:g} requests per second"

    @property
    def said(self) -> str:
        """What is found so far, in words: a breach that was measured told from a mere floor."""
        lower, upper = self.lower, self.upper
        if lower is not None and upper is not None:
            return f"{self._of(lower.load)} hold; an upper bound was measured at {upper.load:g}: {upper.why}"
        if lower is not None:
            reached = " (the highest that was to be tried)" if lower.load >= self.search.high else ""
            return f"at least {self._of(lower.load)} hold{reached}: no breach was measured"
        if upper is not None:
            return f"not even {self._of(upper.load)} hold: {upper.why}"
        return "nothing is known yet"

    def as_json(self) -> dict[str, Any]:
        lower, upper = self.lower, self.upper
        return {
            "settings": dict(self.cell),
            "done": bool(self.step.done),
            "said": self.said,
            "low": lower.load if lower else None,
            "high": upper.load if upper else None,
            "confirmed": _counted(lower) if lower else None,
            "breach": _counted(upper) if upper else None,
            "holds_above": [one.load for one in self.levels if self._is_above(one)],
            "levels": [self._level_json(level) for level in self.levels],
        }

    def _is_above(self, level: Level) -> bool:
        """Passed though a lower level breached: the system does not simply get worse with load."""
        return level.said is Said.PASSED and self.upper is not None and level.load > self.upper.load

    @staticmethod
    def _level_json(level: Level) -> dict[str, Any]:
        return {
            "load": level.load,
            "trial": level.trial,
            "said": level.said.value,
            "why": level.why,
            "runs": [asdict(one) for one in level.runs],
            "run_ids": list(level.run_ids),
        }


def _counted(level: Level) -> dict[str, int]:
    return {"passed": level.count(Said.PASSED), "of": level.judged}


def most_levels(search: LoadSearch) -> int:
    """How many levels a search tries where each is judged as it will stay."""
    doublings = math.ceil(math.log2(search.high / search.low))
    # within the last doubling
    if search.whole:
        halvings = math.ceil(math.log2(max(1.0, min(search.high / 2, 1 / search.tolerance))))
    else:
        halvings = math.ceil(math.log2(math.log(2) / math.log1p(search.tolerance)))
    return 1 + doublings + max(0, halvings)
