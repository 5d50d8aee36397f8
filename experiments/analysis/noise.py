"""A node's noise floor from its own history: how far runs of equal settings lie apart within an experiment, and how far
their means lie apart from one experiment to the next (other days, other neighbours, a restarted server). Pure.

Both are relative to the setting's mean, and pooled over settings: a one-way random-effects analysis of variance by
moments (Searle, Casella, McCulloch 1992), for groups of unequal size.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.analysis.intervals import t_quantile

# Fewer degrees of freedom say too little of the spread between experiments to bound anything by it.
LEAST_BETWEEN = 3


@dataclass(frozen=True)
class HistoricRun:
    """`settings` is equal for runs of equal settings; `ended_at` in ISO 8601, in UTC."""

    settings: str
    experiment: int
    ended_at: str
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class NodeNoise:
    """One metric's on one node. `within` is the relative standard deviation of a run, `between` that of experiments'
    means beyond what their runs explain; each None where its degrees of freedom are too few to say."""

    within: float | None
    within_freedom: int
    between: float | None
    between_freedom: int
    runs: int
    settings: int
    experiments: int
    oldest: str
    newest: str

    def floor(self, repeats: int, *, across: bool) -> float | None:
        """Relative half-width within which two means of `repeats` runs each of equal settings lie 95 % of the time.
        `across` two experiments if that is known, else within one."""
        of_runs = (self.within or 0.0) ** 2 / max(repeats, 1)
        if across and self.between is not None:
            return t_quantile(self.between_freedom) * math.sqrt(2 * (self.between**2 + of_runs))
        if self.within is None:
            return None
        return t_quantile(self.within_freedom) * math.sqrt(2 * of_runs)

    def told(self) -> str:
        """Where the floor is from, for a person."""
        return (
            f"the node's history: {self.runs} runs of {_counted(self.settings, 'setting')} in"
            f" {_counted(self.experiments, 'experiment')}, the latest on {self.newest[:10]}"
        )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def measure_noise(history: Iterable[HistoricRun], metrics: Iterable[str]) -> dict[str, NodeNoise]:
    """By metric; those of which no setting was repeated are left out."""
    runs = list(history)
    found = {metric: _measure(runs, metric) for metric in metrics}
    return {metric: noise for metric, noise in found.items() if noise is not None}


def _measure(runs: Sequence[HistoricRun], metric: str) -> NodeNoise | None:
    by_setting: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if (value := run.values.get(metric)) is not None:
            by_setting[run.settings][run.experiment].append(value)
    groups = {key: group for key, group in by_setting.items() if _is_repeated(group)}
    if not groups:
        return None
    used = [run for run in runs if run.settings in groups and run.values.get(metric) is not None]
    ended = sorted(run.ended_at for run in used)
    within, within_freedom, between, between_freedom = _spreads([list(group.values()) for group in groups.values()])
    experiments = len({run.experiment for run in used})
    return NodeNoise(
        within, within_freedom, between, between_freedom, len(used), len(groups), experiments, ended[0], ended[-1]
    )


def _is_repeated(group: Mapping[int, Sequence[float]]) -> bool:
    values = [value for some in group.values() for value in some]
    return len(values) >= 2 and float(np.mean(values)) != 0


def _spreads(settings: Sequence[Sequence[Sequence[float]]]) -> tuple[float | None, int, float | None, int]:
    """`within`, its degrees of freedom, `between`, and its, of values by setting, by experiment."""
    squares_within = squares_between = weight = 0.0
    freedom_within = freedom_between = 0
    for experiments in settings:
        mean = float(np.mean([value for values in experiments for value in values]))
        sizes = np.array([len(values) for values in experiments], dtype=np.float64)
        means = np.array([np.mean(values) / mean for values in experiments])
        for values, own in zip(experiments, means, strict=True):
            squares_within += float(np.sum((np.asarray(values) / mean - own) ** 2))
            freedom_within += len(values) - 1
        squares_between += float(np.sum(sizes * (means - 1) ** 2))
        freedom_between += len(experiments) - 1
        weight += float(np.sum(sizes) - np.sum(sizes**2) / np.sum(sizes))
    variance = squares_within / freedom_within if freedom_within else None
    between = None
    if freedom_between >= LEAST_BETWEEN:
        excess = squares_between / freedom_between - (variance or 0.0)
        between = math.sqrt(max(0.0, excess) * freedom_between / weight)
    within = None if variance is None else math.sqrt(variance)
    return within, freedom_within, between, freedom_between
