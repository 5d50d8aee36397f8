"""Deletes experiments, so that they can be had back for 30 days, and purges them for good after that.

A deleted experiment is cancelled where it had not ended: nobody could see what it still runs. Its rows and records
stay until the purge, which the control worker does from its schedule.
"""

from __future__ import annotations

import datetime as dt
import logging

from django.db import transaction
from django.utils import timezone

from experiments.models import (
    ATTEMPT_LIVE,
    RESTORABLE,
    Experiment,
    LogLine,
    Record,
    RequestRecord,
    Run,
    Sample,
    StatusRecord,
    StepRecord,
)
from experiments.services.cancelling import end_experiment, stop_runs_of
from labsite.accounts.audit import record
from labsite.accounts.models import User
from labsite.accounts.permissions import require_control

log = logging.getLogger(__name__)

# A day more than what can be restored: web and control machines need not agree to the second.
PURGED_AFTER = RESTORABLE + dt.timedelta(days=1)
RECORDS: tuple[type[Record], ...] = (RequestRecord, Sample, StepRecord, LogLine, StatusRecord)


def delete_experiment(user: User, experiment: Experiment) -> None:
    """Takes the experiment out of sight, and cancels what of it has not ended. Raises AccessDenied."""
    require_control(user, experiment.project, experiment.owner_id, "deleting")
    reason = f"deleted by {user.get_username()}"
    with transaction.atomic():
        seen = Experiment.objects.filter(pk=experiment.pk, deleted_at=None)
        if not seen.update(deleted_at=timezone.now(), deleted_by=user):
            return
        stopped = end_experiment(experiment.pk, reason)
        record(user, "experiment.delete", experiment, cancelled=stopped)
    if stopped:
        stop_runs_of(experiment.pk, reason)


@transaction.atomic
def restore_experiment(user: User, experiment: Experiment) -> None:
    """Brings a deleted experiment back as it was left: what its deletion cancelled stays cancelled. Raises
    AccessDenied, and Experiment.DoesNotExist where it is too late."""
    require_control(user, experiment.project, experiment.owner_id, "restoring")
    deleted = Experiment.objects.filter(pk=experiment.pk, deleted_at__gt=timezone.now() - RESTORABLE)
    if deleted.update(deleted_at=None, deleted_by=None):
        record(user, "experiment.restore", experiment)
    elif not Experiment.objects.filter(pk=experiment.pk, deleted_at=None).exists():
        raise Experiment.DoesNotExist


def purge_deleted(now: dt.datetime | None = None) -> int:
    """Removes for good what was deleted long ago, records and all; says how many experiments. Idempotent.

    One after another, each run's records in a transaction of their own, so that a large experiment holds no lock for
    long and a crash leaves only less to do. One that a node still works for is left to a later round.
    """
    deleted = Experiment.objects.filter(deleted_at__lt=(now or timezone.now()) - PURGED_AFTER)
    due = deleted.exclude(runs__attempts__state__in=ATTEMPT_LIVE).order_by("pk")
    purged = 0
    for experiment in due:
        try:
            _purge(experiment)
            purged += 1
        except Exception:
            log.exception("experiment %s could not be purged", experiment.pk)
    return purged


def _purge(experiment: Experiment) -> None:
    for run_id in Run.objects.filter(experiment=experiment).values_list("pk", flat=True):
        with transaction.atomic():
            for kind in RECORDS:
                kind._default_manager.filter(run_id=run_id).delete()
    with transaction.atomic():
        record(None, "experiment.purge", experiment)
        experiment.delete()
