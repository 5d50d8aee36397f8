"""Holds an experiment's queue, and lets it go on: ACTIVE ⇄ PAUSED by compare-and-set.

While an experiment is paused, none of its queued runs starts. Runs that a node has, or was just given, go on, and end
by their own time limit. The budget of time (`budget.max_seconds`) does not count the pause.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from experiments.errors import WrongState
from experiments.models import Experiment, ExperimentState
from experiments.services.locks import lock_placing
from experiments.services.placing import request_placement
from labsite.accounts.audit import record
from labsite.accounts.models import User
from labsite.accounts.permissions import require_control


@transaction.atomic
def pause_experiment(user: User, experiment: Experiment) -> None:
    """ACTIVE → PAUSED. Pausing twice changes nothing. Raises AccessDenied, WrongState."""
    require_control(user, experiment.project, experiment.owner_id, "pausing")
    # A placer that has read the queue would assign one more run after the answer.
    lock_placing()
    active = Experiment.objects.filter(pk=experiment.pk, state=ExperimentState.ACTIVE, deleted_at=None)
    if active.update(state=ExperimentState.PAUSED, paused_at=timezone.now()):
        record(user, "experiment.pause", experiment)
    else:
        _require_state(experiment, ExperimentState.PAUSED, "paused")


@transaction.atomic
def resume_experiment(user: User, experiment: Experiment) -> None:
    """PAUSED → ACTIVE. Resuming twice changes nothing. Raises AccessDenied, WrongState."""
    require_control(user, experiment.project, experiment.owner_id, "resuming")
    held = Experiment.objects.select_for_update(no_key=True, of=("self",)).get(pk=experiment.pk)
    now = timezone.now()
    pause_s = (now - held.paused_at).total_seconds() if held.paused_at else 0.0
    paused = Experiment.objects.filter(pk=experiment.pk, state=ExperimentState.PAUSED, deleted_at=None)
    if paused.update(state=ExperimentState.ACTIVE, paused_at=None, paused_s=held.paused_s + max(0.0, pause_s)):
        record(user, "experiment.resume", experiment)
        transaction.on_commit(request_placement)
    else:
        _require_state(experiment, ExperimentState.ACTIVE, "resumed")


def _require_state(experiment: Experiment, state: ExperimentState, what: str) -> None:
    """Nothing to do where it is in that state already. Raises WrongState where it has ended."""
    found = Experiment.objects.filter(pk=experiment.pk).values_list("state", flat=True).get()
    if found != state:
        raise WrongState(f"experiment {experiment.pk} is {found}: only one that has not ended can be {what}")
