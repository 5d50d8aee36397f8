"""Which trials a design makes of a matrix: the values that each sets, and what it is called. Pure.

`factorial` tries every combination. `one_at_a_time` starts from one of them and changes a single factor in each other
trial. A ladder stacks its steps, for each combination of the matrix anew. Whether a trial's document holds is for
`runners.matrix` to check.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runners.spec import ExperimentSpec, LadderDesign, Setting
from runners.spec.design import BASE_LABEL


@dataclass(frozen=True)
class TrialPlan:
    """What one trial sets in the document, by path: `axes` of them by the matrix. `label` names a rung of a ladder,
    which is the `rung`-th from its foot."""

    axes: dict[str, Setting]
    sets: dict[str, Setting]
    label: str = ""
    rung: int = 0


def count_trials(spec: ExperimentSpec) -> int:
    """How many trials the design makes, those that `exclude` takes out among them."""
    sizes = [len(values) for values in spec.matrix.values()]
    if spec.design == "one_at_a_time":
        return 1 + sum(size - 1 for size in sizes)
    rungs = 1 + len(spec.design.steps) if isinstance(spec.design, LadderDesign) else 1
    return math.prod(sizes) * rungs


def plan_trials(spec: ExperimentSpec) -> Iterator[TrialPlan]:
    """All trials in their order, without those that `exclude` takes out."""
    combinations = _one_at_a_time(spec) if spec.design == "one_at_a_time" else _factorial(spec.matrix)
    for axes in combinations:
        if any(matches(axes, rule) for rule in spec.exclude):
            continue
        if isinstance(spec.design, LadderDesign):
            yield from _rungs(axes, spec.design)
        else:
            yield TrialPlan(axes, axes)


def matches(settings: Mapping[str, Setting], rule: Mapping[str, Setting]) -> bool:
    """Whether the settings hold every value of the rule; 1 and true are different values."""
    return all(path in settings and same(settings[path], value) for path, value in rule.items())


def same(left: Setting, right: Setting) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _factorial(matrix: Mapping[str, Sequence[Setting]]) -> Iterator[dict[str, Setting]]:
    for values in itertools.product(*matrix.values()):
        yield dict(zip(matrix, values, strict=True))


def _one_at_a_time(spec: ExperimentSpec) -> Iterator[dict[str, Setting]]:
    """From the baseline; where that leaves an axis open, from the axis's first value."""
    start = {path: spec.baseline.get(path, values[0]) for path, values in spec.matrix.items()}
    yield start
    for path, values in spec.matrix.items():
        for value in values:
            if not same(value, start[path]):
                yield start | {path: value}


def _rungs(axes: dict[str, Setting], ladder: LadderDesign) -> Iterator[TrialPlan]:
    sets = axes
    yield TrialPlan(axes, sets, BASE_LABEL)
    for rung, step in enumerate(ladder.steps, start=1):
        sets = sets | step.set
        yield TrialPlan(axes, sets, step.label, rung)
