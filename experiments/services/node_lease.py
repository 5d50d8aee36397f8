"""One heartbeat of a node: its lease is renewed, what it says of its attempts is taken in, and it gets its orders."""

from __future__ import annotations

import datetime as dt

from django.utils import timezone

from experiments.models import ATTEMPT_LIVE, Attempt, AttemptState
from experiments.services.attempts import confirm_ended, lose_attempt
from hardware.messages import AttemptRef, CancelOrder, Heartbeat, HeartbeatAnswer
from hardware.models import HEARTBEAT_S, LEASE_S, LOST_AFTER_S, Node
from hardware.services import record_heartbeat

# How long events of an attempt that was stopped before all were stored are still wanted.
LATE_EVENTS_S = 600.0


def renew_lease(node: Node, body: Heartbeat) -> HeartbeatAnswer:
    """Takes in the heartbeat. Idempotent but for the time of the lease."""
    live = Attempt.objects.filter(node=node, state__in=ATTEMPT_LIVE)
    node = record_heartbeat(node, body, busy=live.exists())
    _take_ended(node, body)
    _take_vanished(node, body)
    stored, discard = _spools(node, body.spools)
    return HeartbeatAnswer(
        lease_s=LEASE_S,
        heartbeat_s=HEARTBEAT_S,
        cancel=_orders(node, body.running),
        stored=stored,
        discard=discard,
        drain=node.draining,
    )


def _take_ended(node: Node, body: Heartbeat) -> None:
    running = Attempt.objects.filter(node=node, state=AttemptState.RUNNING)
    for ref in body.ended:
        for pk in running.filter(run_id=ref.run_id, number=ref.attempt).values_list("pk", flat=True):
            confirm_ended(pk, undelivered=ref.spool_name() in body.spools)


def _take_vanished(node: Node, body: Heartbeat) -> None:
    """A running attempt of which the node knows nothing (its disk was wiped, or the claim's answer never came)."""
    claimed_before = timezone.now() - dt.timedelta(seconds=LOST_AFTER_S)
    known = {*body.spools, *(ref.spool_name() for ref in (*body.ended, *filter(None, [body.running])))}
    running = Attempt.objects.filter(
        node=node, state=AttemptState.RUNNING, claimed_at__lt=claimed_before, report__isnull=True
    )
    for attempt in running:
        if f"{attempt.run_id}-{attempt.number}" not in known:
            lose_attempt(attempt.pk, f"node {node.slug} no longer knows this attempt")


def _orders(node: Node, running: AttemptRef | None) -> list[CancelOrder]:
    """Attempts to end: those whose run is being stopped, and one that is running but no longer current."""
    live = Attempt.objects.filter(node=node, state=AttemptState.RUNNING).select_related("run")
    current = {(attempt.run_id, attempt.number): attempt.run for attempt in live}
    orders = [
        CancelOrder(run_id=run_id, attempt=number, reason=run.reason or "cancelled")
        for (run_id, number), run in current.items()
        if run.cancel_requested_at
    ]
    if running and (running.run_id, running.attempt) not in current:
        orders.append(
            CancelOrder(run_id=running.run_id, attempt=running.attempt, reason="this attempt is no longer current")
        )
    return orders


def _spools(node: Node, names: list[str]) -> tuple[dict[str, int], list[str]]:
    """How far each spool is stored; and those of no more use: fully stored, lost, too late, or not this node's."""
    run_ids = {int(name.split("-")[0]) for name in names}
    attempts = {
        f"{attempt.run_id}-{attempt.number}": attempt
        for attempt in Attempt.objects.filter(node=node, run_id__in=run_ids)
    }
    stored = {name: attempts[name].stored_seq for name in names if name in attempts}
    discard = [name for name in names if name not in attempts or not _wanted(attempts[name])]
    return stored, discard


def _wanted(attempt: Attempt) -> bool:
    if attempt.report is not None or attempt.state == AttemptState.LOST:
        return False
    if attempt.ended_at is None:
        return True
    return (timezone.now() - attempt.ended_at).total_seconds() < LATE_EVENTS_S
