"""From a document to an experiment with its trials and queued runs: all in one transaction, or refused whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from experiments.errors import IdempotencyConflict
from experiments.models import Experiment, IdempotencyKey
from experiments.services.extending import extend_experiment
from experiments.services.feasibility import Feasible, check_feasible
from experiments.services.freezing import store_runs, store_trials
from experiments.services.placing import request_placement
from labsite.accounts.audit import record
from labsite.accounts.models import Project, Role, User
from labsite.accounts.permissions import require
from runners.matrix import Plan, plan_experiment


@dataclass(frozen=True)
class Submission:
    """`created` is false where the same request had made the experiment before."""

    experiment: Experiment
    created: bool


def submit_experiment(
    user: User, project: Project, document: Mapping[str, Any], idempotency_key: str | None = None
) -> Experiment:
    """The experiment of `submit_once`, for who need not know whether it is new."""
    return submit_once(user, project, document, idempotency_key).experiment


def submit_once(
    user: User,
    project: Project,
    document: Mapping[str, Any],
    idempotency_key: str | None = None,
    *,
    cloned_from: Experiment | None = None,
) -> Submission:
    """Stores the experiment and queues its runs; the same key and document again give the same experiment.

    Raises AccessDenied, SpecError with every fault found, IdempotencyConflict.
    """
    require(user, project, Role.RESEARCHER, "submitting an experiment")
    digest = _digest(project, document, cloned_from)
    earlier = _find_submission(user, digest, idempotency_key)
    if earlier:
        return Submission(earlier, created=False)
    plan = plan_experiment(document)
    found = check_feasible(plan, project)
    try:
        with transaction.atomic():
            experiment = _store(user, project, document, plan, found, cloned_from)
            if idempotency_key:
                IdempotencyKey.objects.create(user=user, key=idempotency_key, body_digest=digest, experiment=experiment)
            _tell(user, experiment, experiment.runs.count())
            transaction.on_commit(request_placement)
    except IntegrityError:
        # Another request with this key was first; ours is rolled back.
        winner = _find_submission(user, digest, idempotency_key)
        if winner is None:
            raise
        return Submission(winner, created=False)
    return Submission(experiment, created=True)


def _find_submission(user: User, digest: str, idempotency_key: str | None) -> Experiment | None:
    """The experiment that this key has already made. Raises IdempotencyConflict where it was for another document."""
    if not idempotency_key:
        return None
    held = IdempotencyKey.objects.select_related("experiment").filter(user=user, key=idempotency_key).first()
    if held is None:
        return None
    if held.body_digest != digest:
        raise IdempotencyConflict(idempotency_key, held.experiment_id)
    if held.experiment.deleted_at:
        raise IdempotencyConflict(idempotency_key, held.experiment_id, "which is deleted")
    return held.experiment


def _tell(user: User, experiment: Experiment, runs: int) -> None:
    if experiment.cloned_from_id:
        record(user, "experiment.clone", experiment, runs=runs, cloned_from=experiment.cloned_from_id)
    else:
        record(user, "experiment.submit", experiment, runs=runs)


def _digest(project: Project, document: Mapping[str, Any], cloned_from: Experiment | None) -> str:
    said: list[Any] = [project.pk, document] + ([cloned_from.pk] if cloned_from else [])
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _store(
    user: User,
    project: Project,
    document: Mapping[str, Any],
    plan: Plan,
    found: Feasible,
    cloned_from: Experiment | None,
) -> Experiment:
    experiment = Experiment.objects.create(
        project=project,
        owner=user,
        name=plan.spec.name,
        question=plan.spec.question,
        tags=list(plan.spec.tags),
        document=document,
        spec=plan.spec.model_dump(mode="json"),
        cloned_from=cloned_from,
    )
    if plan.spec.search is not None:
        extend_experiment(experiment.pk)
        return experiment
    trials = dict(enumerate(store_trials(experiment, plan.cells)))
    store_runs(experiment, plan.runs, dict(enumerate(plan.cells)), trials, found)
    return experiment
