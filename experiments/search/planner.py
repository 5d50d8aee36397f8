"""From an experiment's spec and its trials to the courses of its searches, and to what they want together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.search.best import BestCourse
from experiments.search.explore import Exploring
from experiments.search.front import FrontCourse
from experiments.search.load import LoadCourse, most_levels
from experiments.search.seen import Asked, Course, Settings, Step
from experiments.search.tight import TightCourse
from runners.matrix import Plan
from runners.spec import (
    ExperimentSpec,
    LoadSearch,
    ParetoSearch,
    RepeatsUntil,
    SearchSpec,
    SettingsSearch,
)


def plans_ahead(spec: ExperimentSpec) -> bool:
    """Whether the experiment decides on its next runs by its last."""
    return spec.search is not None or isinstance(spec.repeats, RepeatsUntil)


@dataclass(frozen=True)
class Planned:
    """All searches of an experiment: one for each combination of its matrix, or its repeats."""

    kind: str
    courses: Sequence[Course]

    @cached_property
    def step(self) -> Step:
        """What all of them want. `done` once every one is."""
        steps = [course.step for course in self.courses]
        wanted = tuple(one for step in steps for one in step.wanted)
        if all(step.done for step in steps):
            return Step(wanted, "; ".join(dict.fromkeys(step.done for step in steps)))
        return Step(wanted)

    @property
    def said(self) -> str:
        """What all of them have found so far, in words."""
        return "; ".join(dict.fromkeys(course.said for course in self.courses))

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "courses": [course.as_json() for course in self.courses]}


def plan_searches(spec: ExperimentSpec, asked: Asked) -> Planned:
    """Of a spec that plans ahead."""
    if isinstance(spec.search, LoadSearch):
        return Planned("load", [_load(spec, spec.search, asked, cell) for cell in asked.cells])
    if isinstance(spec.search, SettingsSearch):
        search = spec.search
        return Planned("best", [BestCourse(search, cell, _exploring(search, asked, cell)) for cell in asked.cells])
    if isinstance(spec.search, ParetoSearch):
        pareto = spec.search
        return Planned("front", [FrontCourse(pareto, cell, _exploring(pareto, asked, cell)) for cell in asked.cells])
    if not isinstance(spec.repeats, RepeatsUntil):
        raise ValueError("this experiment does not plan ahead")
    return Planned("repeats", [TightCourse(spec.repeats.until, asked.cells, asked.trials)])


def _load(spec: ExperimentSpec, search: LoadSearch, asked: Asked, cell: Settings) -> LoadCourse:
    open_loop = spec.workload.arrival.kind == "open"
    return LoadCourse(search, cell, asked.of_cell(cell), asked.allowed, open_loop)


def _exploring(search: SettingsSearch | ParetoSearch, asked: Asked, cell: Settings) -> Exploring:
    part = search.pareto if isinstance(search, ParetoSearch) else search
    metrics = search.pareto.metrics if isinstance(search, ParetoSearch) else (search.optimize,)
    return Exploring(
        cell=cell,
        space=part.space,
        metrics=tuple(metrics),
        most=part.trials,
        repeats=part.repeats,
        seed=asked.seed,
        trials=asked.of_cell(cell),
        allowed=asked.allowed,
    )


def most_runs(spec: ExperimentSpec, cells: int) -> int:
    """How many runs there may be where every run tells something; never more than the budget allows."""
    per_cell = spec.most_repeats if spec.search is None else _most_of_search(spec.search)
    return min(spec.budget.max_runs, cells * per_cell)


def most_runs_of(plan: Plan) -> int:
    """Of a checked document."""
    return most_runs(plan.spec, len(plan.searched) or len(plan.cells))


def first_runs(plan: Plan) -> int:
    """How many runs a checked document begins with."""
    if plan.spec.search is None:
        return len(plan.runs)
    step = plan_searches(plan.spec, Asked(plan.searched, (), plan.spec.seed)).step
    return min(plan.spec.budget.max_runs, sum(one.runs for one in step.wanted))


def _most_of_search(search: SearchSpec) -> int:
    if isinstance(search, LoadSearch):
        return most_levels(search) + 2 * (search.confirm - 1)
    if isinstance(search, SettingsSearch):
        return search.trials * search.repeats + 2 * search.confirm
    return search.pareto.trials * search.pareto.repeats
