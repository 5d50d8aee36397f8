"""Experiments as rows of a table: each with how many of its runs have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.models import RUN_ENDED, Experiment, RunState
from experiments.selectors import count_runs


@dataclass(frozen=True)
class Progress:
    """`percent` is the share of runs that have ended, in whatever way."""

    total: int
    ended: int
    failed: int

    @property
    def percent(self) -> float:
        return 100 * self.ended / self.total if self.total else 0


@dataclass(frozen=True)
class ExperimentRow:
    experiment: Experiment
    progress: Progress


def progress_of(counts: dict[str, int]) -> Progress:
    ended = sum(counts[state] for state in RUN_ENDED)
    return Progress(sum(counts.values()), ended, counts[RunState.FAILED])


def experiment_rows(experiments: Sequence[Experiment]) -> list[ExperimentRow]:
    """One query, however many there are."""
    counts = count_runs(experiment.pk for experiment in experiments)
    return [ExperimentRow(experiment, progress_of(counts[experiment.pk])) for experiment in experiments]
