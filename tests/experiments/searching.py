"""Experiments that search, whose runs end as a test says: what extending, the API and the page are tested on."""

from __future__ import annotations

from typing import Any

from control_plane import document, person
from django.utils import timezone

from experiments.models import Attempt, Experiment, Run, RunState
from experiments.services import submit_experiment
from experiments.services.follow_up import settle_experiment
from hardware.models import Node
from labsite.accounts.models import Project

LOAD = "workload.arrival.max_concurrency"
SEARCH = {"maximize": LOAD, "under": "slo", "low": 1, "high": 16, "confirm": 2}
CHANGES: dict[str, Any] = {"slo": {"ttft_s": {"p95": 1.0}}, "search": SEARCH}


def submit_search(project: Project, **changes: Any) -> Experiment:
    """`document` of the other tests without its repeats, which a search says itself."""
    said = {key: value for key, value in document(**{**CHANGES, **changes}).items() if key != "repeats"}
    return submit_experiment(person(project), project, said)


def end(run: Run, node: Node, slo_met: bool = True, value: float = 100.0, **more: float) -> None:
    """The run's end with its results, as the recorder leaves it, but for what follows."""
    attempt = Attempt.objects.create(run=run, number=1, node=node, state="succeeded")
    figures = {"slo_met": float(slo_met), "requests_ok": 64.0, "requests_failed": 0.0, "output_throughput": value}
    figures |= more
    metrics = {name: {"value": one, "unit": "", "n": 64, "percentiles": {}} for name, one in figures.items()}
    Run.objects.filter(pk=run.pk).update(
        state=RunState.SUCCEEDED,
        final_attempt=attempt,
        valid=True,
        summary={"metrics": metrics, "reasons": [], "valid": True},
        started_at=timezone.now(),
        ended_at=timezone.now(),
    )


def open_runs(experiment: Experiment) -> list[Run]:
    return list(experiment.runs.filter(state=RunState.QUEUED).select_related("trial").order_by("position"))


def search_through(experiment: Experiment, node: Node, limit: int) -> None:
    """Ends every run as a system would that holds `limit` users, and lets what follows follow, to the end."""
    for _ in range(100):
        runs = open_runs(experiment)
        if not runs:
            break
        end(runs[0], node, runs[0].trial.settings[LOAD] <= limit)
        settle_experiment(experiment.pk)
    experiment.refresh_from_db()
