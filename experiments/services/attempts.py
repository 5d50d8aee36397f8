"""An attempt's way: claimed by its node, then ended by its report, by the node's word, or by loss."""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.utils import timezone

from experiments.errors import ClaimRefused, ReportMissing
from experiments.lifecycle import Stop, Verdict, judge_loss, judge_report, judge_stopped
from experiments.models import ATTEMPT_LIVE, RUN_ENDED, Attempt, AttemptState, Run, RunState
from experiments.services.claimed_chips import with_node
from experiments.services.follow_up import follow_up, keep_results
from experiments.services.locks import lock_run
from experiments.services.webhook_events import tell_run
from hardware.models import Node
from hardware.services import mark_idle
from runners.spec import RunSpec


@transaction.atomic
def claim(node: Node, run_id: int, number: int) -> RunSpec:
    """ASSIGNED → RUNNING, and what to run: the frozen spec with the chips, links and price that this node has now.

    Raises ClaimRefused.
    """
    attempt = Attempt.objects.filter(run_id=run_id, number=number, node=node).first()
    if attempt is None:
        raise ClaimRefused(f"run {run_id} attempt {number} was never given to node {node.slug}")
    run = lock_run(run_id)
    now = timezone.now()
    spec, chip = with_node(RunSpec.model_validate(run.spec), node)
    assigned = Attempt.objects.filter(pk=attempt.pk, state=AttemptState.ASSIGNED)
    if not assigned.update(state=AttemptState.RUNNING, claimed_at=now, chip=chip):
        attempt.refresh_from_db()
        raise ClaimRefused(f"run {run_id} attempt {number} is {attempt.state}, not assigned")
    Run.objects.filter(pk=run_id, state=RunState.ASSIGNED).update(
        state=RunState.RUNNING, spec=spec.model_dump(mode="json"), started_at=run.started_at or now
    )
    return spec


def finish_attempt(attempt_id: int) -> None:
    """Ends the attempt as its report says. To be called when the report and all events are stored.

    Called again, or for an attempt that was lost or stopped meanwhile, it changes no state. Raises ReportMissing.
    """
    with transaction.atomic():
        run, attempt = _lock(attempt_id)
        if not is_complete(attempt):
            raise ReportMissing(f"run {run.pk} attempt {attempt.number}: {attempt.stored_seq} events and no report yet")
        if attempt.state in ATTEMPT_LIVE:
            _apply(run, attempt, _report_verdict(run, attempt))
        elif attempt.pk == run.final_attempt_id and attempt.state != AttemptState.LOST:
            # Stopped by the node's word before its last events came: its results are those of all events.
            transaction.on_commit(partial(keep_results, run.pk))


def lose_attempt(attempt_id: int, reason: str) -> bool:
    """A live attempt → LOST, its run back to the queue or ended. False where it was no longer live."""
    with transaction.atomic():
        run, attempt = _lock(attempt_id)
        if attempt.state not in ATTEMPT_LIVE:
            return False
        if is_complete(attempt):
            _apply(run, attempt, _report_verdict(run, attempt))
        else:
            _apply(run, attempt, judge_loss(reason, stop_of(run), retries_left(run)))
        return True


def confirm_ended(attempt_id: int, *, undelivered: bool = False) -> bool:
    """No process of the attempt is left: if its run is being stopped, the stop is done. Says whether it was.

    With `undelivered` events on the node, a run that was stopped by its time limit waits for them: it may have
    finished in time and only its report is late.
    """
    with transaction.atomic():
        run, attempt = _lock(attempt_id)
        stop = stop_of(run)
        if attempt.state != AttemptState.RUNNING or stop is None:
            return False
        if is_complete(attempt):
            _apply(run, attempt, _report_verdict(run, attempt))
        elif undelivered and stop.outcome == RunState.FAILED:
            return False
        else:
            _apply(run, attempt, judge_stopped(stop))
        return True


def drop_assignment(run: Run, stop: Stop) -> None:
    """An attempt that nobody has claimed yet ends at once with its run's stop. The run must be locked."""
    attempt = Attempt.objects.get(run=run, state=AttemptState.ASSIGNED)
    _apply(run, attempt, judge_stopped(stop))


def is_complete(attempt: Attempt) -> bool:
    return attempt.report is not None


def stop_of(run: Run) -> Stop | None:
    if run.cancel_requested_at is None:
        return None
    return Stop(RunState(run.cancel_outcome or RunState.CANCELLED), run.reason)


def retries_left(run: Run) -> bool:
    return run.attempts_made <= int(run.experiment.spec["retries"])


def _lock(attempt_id: int) -> tuple[Run, Attempt]:
    run_id = Attempt.objects.values_list("run_id", flat=True).get(pk=attempt_id)
    run = lock_run(run_id)
    return run, Attempt.objects.get(pk=attempt_id)


def _report_verdict(run: Run, attempt: Attempt) -> Verdict:
    report = attempt.report or {}
    error, retry = report.get("error") or "", bool(report.get("retry"))
    return judge_report(str(report.get("outcome")), error, retry, stop_of(run), retries_left(run))


def _apply(run: Run, attempt: Attempt, verdict: Verdict) -> None:
    """Writes the verdict on a live attempt and its run, frees the node, and leaves the rest for after the commit."""
    now = timezone.now()
    live = Attempt.objects.filter(pk=attempt.pk, state__in=ATTEMPT_LIVE)
    if not live.update(state=verdict.attempt, ended_at=now, reason=verdict.reason):
        return
    ended = verdict.run in RUN_ENDED
    Run.objects.filter(pk=run.pk, state__in=[RunState.ASSIGNED, RunState.RUNNING]).update(
        state=verdict.run,
        reason=verdict.reason,
        ended_at=now if ended else None,
        final_attempt=attempt if ended else None,
    )
    assert attempt.node_id is not None  # a live attempt has a node
    mark_idle(attempt.node_id)
    if verdict.run == RunState.FAILED:
        tell_run(run.pk, "run.failed")
    transaction.on_commit(partial(follow_up, run.pk, run.experiment_id))
