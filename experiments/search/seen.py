"""What planners are given and what they give. Pure values; how stored rows become them is in experiments.search.stored.

A planner says how many runs of which settings there should be in all. What is missing of that is added; so a planner
that is asked twice, or after a crash, adds nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from experiments.analysis.compare import RunResult, TrialResult
from runners.spec import Setting

Settings = Mapping[str, Setting]
# Whether a trial with these settings could run at all: its document holds and some node takes it.
Allowed = Callable[[Settings], bool]


@dataclass(frozen=True)
class RunSeen:
    """One run. `result` is None until it has ended and been summed up; `slo_met` and `success`, the share of its
    measured requests that were ok, are None where they are not known."""

    repeat: int
    result: RunResult | None
    succeeded: bool = False
    slo_met: bool | None = None
    success: float | None = None

    @property
    def is_open(self) -> bool:
        return self.result is None


@dataclass(frozen=True)
class TrialSeen:
    id: int
    index: int
    settings: Settings
    runs: tuple[RunSeen, ...] = ()

    @property
    def is_open(self) -> bool:
        return any(run.is_open for run in self.runs)

    def result(self, runs: Sequence[RunSeen] | None = None) -> TrialResult:
        """As comparisons take it, by all its runs that are summed up, or by some of them."""
        counted = self.runs if runs is None else runs
        found = tuple(run.result for run in counted if run.result is not None)
        return TrialResult(self.id, 0, self.settings, found)


@dataclass(frozen=True)
class Wanted:
    """So many runs of these settings in all."""

    settings: Settings
    runs: int


@dataclass(frozen=True)
class Step:
    """What there should be. `done` says why no more is wanted, and is empty while there is more to come; it counts only
    once all that is wanted is there and has ended."""

    wanted: tuple[Wanted, ...] = ()
    done: str = ""


class Course(Protocol):
    """One planner's view of one search: what it has found so far and what it wants next."""

    @property
    def step(self) -> Step: ...

    @property
    def said(self) -> str:
        """What is found so far, in words."""
        ...

    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Asked:
    """What every planner is asked with. `cells` are the combinations of the matrix, one search each, and `seed` is the
    experiment's."""

    cells: Sequence[Settings]
    trials: Sequence[TrialSeen]
    seed: int = 0
    allowed: Allowed = field(default=lambda settings: True)

    def of_cell(self, cell: Settings) -> list[TrialSeen]:
        """The trials of one combination, in the order in which they were planned."""
        inside = [one for one in self.trials if all(one.settings.get(path) == value for path, value in cell.items())]
        return sorted(inside, key=lambda one: one.index)


def key_of(settings: Settings) -> str:
    """Equal for equal settings: 1 and 1.0 and true are three."""
    return json.dumps(settings, sort_keys=True)
