"""Reads: what the API, the pages and the sockets show. Every read of a person's is limited to his projects.

Each function costs a fixed number of queries, whatever the size of the experiment. Writes are in experiments.services.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, QuerySet
from django.utils import timezone

from experiments.engine_names import on_engine
from experiments.models import (
    ATTEMPT_LIVE,
    RESTORABLE,
    Attempt,
    Experiment,
    LogLine,
    Record,
    RequestRecord,
    Run,
    RunState,
    Sample,
    StepRecord,
    Trial,
)
from labsite.accounts.models import Project, User
from labsite.accounts.permissions import projects_of
from runners.display import model_label

RECORDS: dict[str, type[Record]] = {
    "requests": RequestRecord,
    "series": Sample,
    "steps": StepRecord,
    "log": LogLine,
}


@dataclass(frozen=True)
class RunOnNode:
    """A run with its latest attempt, from which its node and phase are known. `attempt.node` is loaded."""

    run: Run
    attempt: Attempt | None

    @property
    def node(self) -> str | None:
        """Its slug; None before it is placed, and of an imported run."""
        return self.attempt.node.slug if self.attempt and self.attempt.node else None

    @property
    def phase(self) -> str:
        return self.attempt.phase if self.attempt else ""

    @property
    def modelled(self) -> bool | None:
        """Of an imported run: whether it was where it comes from."""
        if self.run.imported is not None:
            return bool(self.run.imported.get("modelled"))
        return self.attempt.is_modelled if self.attempt else None

    @property
    def imported(self) -> bool:
        return self.run.imported is not None


@dataclass(frozen=True)
class TrialWithRuns:
    trial: Trial
    runs: list[RunOnNode] = field(default_factory=list)


class ProjectUnclear(Exception):
    """No project was named and the user has not exactly one, or he is not in the one that was named."""

    def __init__(self, slug: str | None, own: Sequence[str]) -> None:
        unnamed = "say which project" if own else "you are in no project yet: ask an admin to add you to one"
        super().__init__(f"you are in no project {slug!r}" if slug else unnamed)
        self.allowed = list(own)


def get_project(user: User, slug: str | None) -> Project:
    """The user's project of that slug; without a slug, his only one. Raises ProjectUnclear."""
    own = {project.slug: project for project in projects_of(user).order_by("slug")}
    if slug is None and len(own) == 1:
        return next(iter(own.values()))
    if slug is None or slug not in own:
        raise ProjectUnclear(slug, list(own))
    return own[slug]


def readable_experiments(user: User) -> QuerySet[Experiment]:
    """Those of his projects that are not deleted."""
    return _experiments_of(user).filter(deleted_at=None)


def deleted_experiments(user: User) -> QuerySet[Experiment]:
    """Those of his projects that are deleted and can still be restored."""
    return _experiments_of(user).filter(deleted_at__gt=timezone.now() - RESTORABLE)


def _experiments_of(user: User) -> QuerySet[Experiment]:
    return Experiment.objects.filter(project__in=projects_of(user)).select_related("project", "owner")


def readable_runs(user: User) -> QuerySet[Run]:
    return Run.objects.filter(experiment__project__in=projects_of(user), experiment__deleted_at=None)


def get_experiment(user: User, experiment_id: int, *, deleted_too: bool = False) -> Experiment:
    """Raises Experiment.DoesNotExist, also where it belongs to a project that the user is not in."""
    readable = readable_experiments(user)
    return (readable | deleted_experiments(user) if deleted_too else readable).get(id=experiment_id)


def get_run(user: User, run_id: int) -> Run:
    """The run with its experiment and trial. Raises Run.DoesNotExist, as get_experiment does."""
    return readable_runs(user).select_related("experiment__project", "trial").get(id=run_id)


def recent_experiments(user: User, limit: int) -> list[Experiment]:
    """The newest first."""
    return list(readable_experiments(user).defer("spec", "document").order_by("-id")[:limit])


def models_of(experiment_id: int) -> list[str]:
    """The models of an experiment's runs, by their names, with what a reader must know of them: random weights, and the
    engine that ran them where that is not the built-in one."""
    models = Run.objects.filter(experiment_id=experiment_id).order_by("spec__model__name").distinct()
    engine = ("spec__engine__kind", "spec__engine__name")
    rows = models.values_list("spec__model__name", "spec__model__random_weights", *engine)
    labels = [
        on_engine(model_label({"name": name, "random_weights": random}), {"kind": kind, "name": engine_name})
        for name, random, kind, engine_name in rows
    ]
    return list(dict.fromkeys(labels))


def count_runs(experiment_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """Runs by state for each experiment; every state is there."""
    counts = {experiment_id: dict.fromkeys(RunState.values, 0) for experiment_id in experiment_ids}
    rows = Run.objects.filter(experiment_id__in=counts).order_by().values_list("experiment_id", "state")
    for experiment_id, state, count in rows.annotate(Count("id")):
        counts[experiment_id][state] = count
    return counts


def trials_with_runs(experiment_id: int) -> list[TrialWithRuns]:
    trials = {trial.id: TrialWithRuns(trial) for trial in Trial.objects.filter(experiment_id=experiment_id)}
    for entry in runs_on_nodes(Run.objects.filter(experiment_id=experiment_id).defer("spec", "distributions")):
        trials[entry.run.trial_id].runs.append(entry)
    for trial in trials.values():
        trial.runs.sort(key=lambda entry: entry.run.repeat)
    return sorted(trials.values(), key=lambda entry: entry.trial.index)


def runs_on_nodes(runs: QuerySet[Run]) -> list[RunOnNode]:
    return with_nodes(list(runs))


def with_nodes(found: Sequence[Run]) -> list[RunOnNode]:
    """The runs, in their order, each with its latest attempt."""
    latest = latest_attempts(run.id for run in found)
    return [RunOnNode(run, latest.get(run.id)) for run in found]


def latest_attempts(run_ids: Iterable[int]) -> dict[int, Attempt]:
    attempts = Attempt.objects.filter(run_id__in=list(run_ids)).select_related("node").defer("report")
    return {attempt.run_id: attempt for attempt in attempts.order_by("run_id", "-number").distinct("run_id")}


def attempts_of(run_id: int) -> list[Attempt]:
    return list(Attempt.objects.filter(run_id=run_id).select_related("node", "chip").order_by("number"))


def shown_attempt(run: Run, attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt whose records a reader sees: the final one, or the one under way."""
    final = [attempt for attempt in attempts if attempt.id == run.final_attempt_id]
    return next(iter(final or attempts[-1:]), None)


def records_after(kind: str, run_id: int, attempt: int, after: int, limit: int) -> list[dict[str, Any]]:
    """Stored events of one kind, in order, each with its `seq`. One more than `limit` says that there are others."""
    rows = RECORDS[kind]._default_manager.filter(run_id=run_id, attempt=attempt, seq__gt=after)
    found = rows.order_by("seq").values_list("seq", "data")[: limit + 1]
    return [{"seq": seq, **data} for seq, data in found]


def latest_sample(run_id: int, attempt: int) -> dict[str, Any] | None:
    rows = Sample.objects.filter(run_id=run_id, attempt=attempt).order_by("-seq")
    return rows.values_list("data", flat=True).first()


def count_measured_requests(run_id: int, attempt: int) -> int:
    return RequestRecord.objects.filter(run_id=run_id, attempt=attempt, phase="measured").count()


def current_runs(node_ids: Iterable[int], user: User) -> dict[int, int]:
    """The run under way on each node, where the user may see it."""
    live = Run.objects.filter(attempts__state__in=ATTEMPT_LIVE, attempts__node_id__in=list(node_ids))
    seen = live.filter(experiment__project__in=projects_of(user), experiment__deleted_at=None)
    return dict(seen.values_list("attempts__node_id", "id"))


def shown_number(run: Run) -> int | None:
    """The number of the shown attempt; None before the first."""
    attempts = Attempt.objects.filter(run_id=run.id)
    final = attempts.filter(id=run.final_attempt_id) if run.final_attempt_id else attempts
    return final.order_by("-number").values_list("number", flat=True).first()
