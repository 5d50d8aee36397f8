"""Stops runs and experiments. A queued or unclaimed run ends at once; a running one when its node says that no
process of it is left, or when the node's lease has run out."""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from experiments.lifecycle import Stop
from experiments.models import EXPERIMENT_OPEN, RUN_ENDED, Experiment, ExperimentState, Run, RunState
from experiments.services.attempts import drop_assignment
from experiments.services.follow_up import follow_up
from experiments.services.locks import lock_placing, lock_run
from experiments.services.webhook_events import tell_experiment_ended
from labsite.accounts.audit import record
from labsite.accounts.models import User
from labsite.accounts.permissions import require_control


@transaction.atomic
def cancel_run(user: User, run: Run) -> None:
    """Asks for the end of one run. A run that has ended stays what it is. Raises AccessDenied."""
    experiment = run.experiment
    require_control(user, experiment.project, experiment.owner_id, "cancelling")
    if stop_run(run.pk, Stop(RunState.CANCELLED, f"cancelled by {user.get_username()}")):
        record(user, "run.cancel", run, project=experiment.project, experiment=experiment.pk)


def cancel_experiment(user: User, experiment: Experiment) -> None:
    """Asks for the end of all that is left of an experiment. Raises AccessDenied."""
    require_control(user, experiment.project, experiment.owner_id, "cancelling")
    reason = f"cancelled by {user.get_username()}"
    with transaction.atomic():
        stopped = end_experiment(experiment.pk, reason)
        if stopped:
            record(user, "experiment.cancel", experiment)
    if stopped:
        stop_runs_of(experiment.pk, reason)


def stop_experiment(experiment_id: int, reason: str) -> bool:
    """ACTIVE or PAUSED → CANCELLED, then each run by itself. False where it had ended."""
    if not end_experiment(experiment_id, reason):
        return False
    stop_runs_of(experiment_id, reason)
    return True


@transaction.atomic
def end_experiment(experiment_id: int, reason: str) -> bool:
    """ACTIVE or PAUSED → CANCELLED; its runs are left to `stop_runs_of`, after the commit. False where it had ended."""
    unended = Experiment.objects.filter(pk=experiment_id, state__in=EXPERIMENT_OPEN)
    ended = unended.update(state=ExperimentState.CANCELLED, reason=reason, ended_at=timezone.now())
    if ended:
        tell_experiment_ended(experiment_id)
    return bool(ended)


def stop_runs_of(experiment_id: int, reason: str) -> None:
    """Ends every run of an experiment that is over, so that nothing follows but what its nodes say."""
    stop = Stop(RunState.CANCELLED, reason)
    with transaction.atomic():
        # A placer that assigns several of them would else wait for these rows, and this for its.
        lock_placing()
        _end_queued(Run.objects.filter(experiment_id=experiment_id), stop)
    open_runs = Run.objects.filter(experiment_id=experiment_id).exclude(state__in=RUN_ENDED)
    for run_id in open_runs.values_list("pk", flat=True):
        stop_run(run_id, stop)


def _end_queued(runs: QuerySet[Run], stop: Stop) -> bool:
    """QUEUED → what the stop says; False where none was queued."""
    now = timezone.now()
    ended = runs.filter(state=RunState.QUEUED).update(
        state=stop.outcome,
        reason=stop.reason,
        ended_at=now,
        cancel_requested_at=now,
        cancel_outcome=stop.outcome,
    )
    return ended > 0


@transaction.atomic
def stop_run(run_id: int, stop: Stop) -> bool:
    """Ends a run that runs nowhere; orders the end of one that does. The first order stands: False for another."""
    run = lock_run(run_id)
    if _end_queued(Run.objects.filter(pk=run_id), stop):
        transaction.on_commit(partial(follow_up, run_id, run.experiment_id))
        return True
    unordered = Run.objects.filter(pk=run_id, cancel_requested_at=None, state__in=["assigned", "running"])
    ordered = unordered.update(cancel_requested_at=timezone.now(), cancel_outcome=stop.outcome, reason=stop.reason)
    if run.state == RunState.ASSIGNED:
        drop_assignment(run, stop)
    return ordered > 0
