"""What follows when an attempt or a run has ended, after the commit: results, the experiment's end, the next run, the
node's noise.

Each part stands for itself and may be called again; what a crash leaves undone, the reaper does.
"""

from __future__ import annotations

import logging

from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from experiments.models import EXPERIMENT_OPEN, RUN_ENDED, Experiment, ExperimentState, Run, RunState
from experiments.results import store_results
from experiments.services.extending import extend_experiment
from experiments.services.noise import refresh_noise
from experiments.services.placing import place_runs
from experiments.services.webhook_events import tell_experiment_ended, tell_run

log = logging.getLogger(__name__)


def follow_up(run_id: int, experiment_id: int) -> None:
    place_runs()
    # The results of an attempt that ended without a report are the reaper's to compute: events may still come.
    if Run.objects.filter(pk=run_id, final_attempt__report__isnull=False).exists():
        keep_results(run_id)
    settle_experiment(experiment_id)


def keep_results(run_id: int) -> None:
    """Summary and validity of an ended run from the records that there are, which its node's noise then rests on too.
    A run that can't be summed up says so: it must neither stop the caller nor be tried for ever."""
    run = Run.objects.select_related("final_attempt", "experiment").get(pk=run_id)
    if run.state not in RUN_ENDED or run.final_attempt is None:
        return
    try:
        with transaction.atomic():
            store_results(run)
            _tell_if_invalid(run_id)
    except Exception as error:
        log.exception("run %s: results could not be computed", run_id)
        message = f"results could not be computed: {type(error).__name__}: {error}"
        with transaction.atomic():
            Run.objects.filter(pk=run_id).update(valid=False, reasons=["results_failed"], reason=message)
            _tell_if_invalid(run_id)
    _refresh_noise(run_id)


def _refresh_noise(run_id: int) -> None:
    """What fails here is made good when the node's next run ends; the run's own results stand without it."""
    try:
        with transaction.atomic():
            refresh_noise(run_id)
    except Exception:
        log.exception("run %s: its node's noise could not be computed", run_id)


def _tell_if_invalid(run_id: int) -> None:
    if Run.objects.filter(pk=run_id, state=RunState.SUCCEEDED, valid=False).exists():
        tell_run(run_id, "run.invalid")


@transaction.atomic
def settle_experiment(experiment_id: int) -> bool:
    """ACTIVE or PAUSED → DONE when every run has ended, and the experiment plans no more. Looks after the commit of a
    run's end, so that of two last runs that end together at least one sees both."""
    if _has_more_to_come(experiment_id):
        return False
    if Run.objects.filter(experiment_id=experiment_id).exclude(state__in=RUN_ENDED).exists():
        return False
    unended = Experiment.objects.filter(pk=experiment_id, state__in=EXPERIMENT_OPEN)
    done = unended.update(state=ExperimentState.DONE, ended_at=timezone.now())
    if done:
        tell_experiment_ended(experiment_id)
    return bool(done)


def _has_more_to_come(experiment_id: int) -> bool:
    """As extend_experiment says. Where the next runs can't be worked out none will come, and the outcome says why: an
    experiment must not stay open for ever, nor keep its caller from what else is to do. A database that is away is
    another matter: the reaper asks again."""
    try:
        with transaction.atomic():
            return extend_experiment(experiment_id)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        log.exception("experiment %s: its next runs could not be worked out", experiment_id)
        outcome = f"its next runs could not be worked out: {type(error).__name__}: {error}"
        Experiment.objects.filter(pk=experiment_id, state__in=EXPERIMENT_OPEN).update(outcome=outcome)
        return False
