"""Ended experiments whose figures are set, not measured: what the statistics over stored runs are tested on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
from control_plane import submit
from django.utils import timezone

from experiments.models import Attempt, Experiment, ExperimentState, Run, RunState
from hardware.models import Node
from labsite.accounts.models import Project, User

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def measured(rng: np.random.Generator, mean: float, repeats: int, spread: float = 0.01) -> list[float]:
    return [float(value) for value in mean * (1 + spread * rng.standard_normal(repeats))]


def ended(
    project: Project,
    node: Node,
    figures: Sequence[Sequence[float]],
    *,
    user: User | None = None,
    metric: str = "output_throughput",
    day: int = 0,
    **changes: Any,
) -> Experiment:
    """An experiment of valid runs with those figures, by trial and repeat, that ran on that day."""
    matrix = {"engine.max_num_seqs": list(range(1, len(figures) + 1))} if len(figures) > 1 else {}
    experiment = submit(project, user, **{"repeats": len(figures[0]), "matrix": matrix, **changes})
    begin = BEGIN + dt.timedelta(days=day)
    for run in experiment.runs.select_related("trial").order_by("position"):
        end_run(run, node, figures[run.trial.index][run.repeat], metric, begin + dt.timedelta(minutes=run.position))
    Experiment.objects.filter(pk=experiment.pk).update(state=ExperimentState.DONE, ended_at=timezone.now())
    experiment.refresh_from_db()
    return experiment


def end_run(run: Run, node: Node, value: float, metric: str, at: dt.datetime) -> None:
    attempt = Attempt.objects.create(run=run, number=1, node=node, state="succeeded")
    figure = {"value": value, "unit": "tok/s", "n": 4, "percentiles": {}}
    Run.objects.filter(pk=run.pk).update(
        state=RunState.SUCCEEDED,
        final_attempt=attempt,
        valid=True,
        summary={"metrics": {metric: figure}, "reasons": [], "valid": True},
        started_at=at,
        ended_at=at + dt.timedelta(seconds=50),
    )
