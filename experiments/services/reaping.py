"""The control plane's watch: what time, silence or a crash has left undone. Runs every few seconds.

1. mark silent nodes as lost, and lose the attempts of lost and retired nodes;
2. order the end of runs past their time limit and of experiments past their budget;
3. send again what no node has claimed; give up on what a node does not claim;
4. end stopped attempts whose node's lease has run out;
5. finish what was stored but not concluded before a crash.

One bad row can't stop the rest: each is done by itself, and its failure is logged.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

import redis
from django.db import transaction
from django.db.models import Min, Q
from django.utils import timezone

from experiments.lifecycle import Stop
from experiments.models import (
    ATTEMPT_LIVE,
    EXPERIMENT_OPEN,
    RUN_ENDED,
    Attempt,
    AttemptState,
    ControlHeartbeat,
    Experiment,
    ExperimentState,
    Run,
    RunState,
)
from experiments.services.attempts import confirm_ended, finish_attempt, lose_attempt
from experiments.services.cancelling import stop_experiment, stop_run, stop_runs_of
from experiments.services.follow_up import keep_results, settle_experiment
from experiments.services.placing import place_runs, send_attempts
from experiments.services.webhook_events import tell_node_lost
from hardware.models import HEARTBEAT_S, LEASE_S, Node, NodeState
from hardware.services import ensure_broker_users, mark_busy, mark_idle, mark_lost

log = logging.getLogger(__name__)

RESEND_AFTER_S = 10.0
UNCLAIMED_LIMIT_S = 120.0
# The node counts its lease from an answer that it may have had a heartbeat later than we wrote it down.
LEASE_OVER_S = LEASE_S + HEARTBEAT_S
# A longer silence of the reaper itself is time in which nobody watched.
WATCH_GAP_S = 10.0
# the phase in which a node gets the model of its run
FETCHING = "fetching"

Row = TypeVar("Row")


def reap(now: dt.datetime | None = None) -> None:
    """One round of the watch. Idempotent; two at once do no harm."""
    now = now or timezone.now()
    watching_since = watch(now)
    _lose_silent_nodes(now, watching_since)
    _order_ends(now)
    _see_to_unclaimed(now)
    _end_stopped(now)
    _finish_interrupted(now)
    _heal_broker()
    _heal_nodes()
    place_runs()


def watch(now: dt.datetime) -> dt.datetime:
    """Notes that the reaper looked; since when it has looked without a gap. Silence before that is nobody's fault."""
    last, _ = ControlHeartbeat.objects.get_or_create(name="reaper", defaults={"seen_at": now})
    since, _ = ControlHeartbeat.objects.get_or_create(name="reaper-since", defaults={"seen_at": now})
    if (now - last.seen_at).total_seconds() > WATCH_GAP_S:
        since.seen_at = now
        since.save(update_fields=["seen_at"])
    ControlHeartbeat.objects.filter(name="reaper").update(seen_at=now)
    return since.seen_at


def _each(rows: Iterable[Row], act: Callable[[Row], object]) -> None:
    for row in rows:
        try:
            act(row)
        except Exception:
            log.exception("the reaper could not see to %r", row)


def _lose_silent_nodes(now: dt.datetime, watching_since: dt.datetime) -> None:
    def lose_node(node: Node) -> None:
        if node.last_seen_at is None:
            return
        blind_s = max(0.0, (watching_since - node.last_seen_at).total_seconds())
        if not node.is_lost(now, blind_s):
            return
        with transaction.atomic():
            if mark_lost(node.pk, node.last_seen_at):
                tell_node_lost(node)
                log.warning("node %s is lost: no word since %s", node.slug, node.last_seen_at.isoformat())

    live = Node.objects.filter(state__in=[NodeState.ONLINE, NodeState.BUSY, NodeState.DRAINING])
    _each(list(live), lose_node)
    gone = Attempt.objects.filter(state__in=ATTEMPT_LIVE, node__state__in=[NodeState.LOST, NodeState.RETIRED])
    _each(
        list(gone.select_related("node")),
        lambda attempt: lose_attempt(attempt.pk, _why_gone(attempt.node)),
    )


def _why_gone(node: Node | None) -> str:
    assert node is not None  # a live attempt has one
    return f"node {node.slug} is {node.state}" + (f": {node.fault}" if node.fault else "")


def _order_ends(now: dt.datetime) -> None:
    def end_late_run(attempt: Attempt) -> None:
        # Its clock starts when the node has the model: a fetch that stalls ends by itself, on the node.
        limit_s = float(attempt.run.spec["time_limit_s"])
        since = attempt.fetched_at or attempt.claimed_at
        if since and attempt.phase != FETCHING and (now - since).total_seconds() > limit_s:
            stop_run(attempt.run_id, Stop(RunState.FAILED, f"it ran longer than its time limit of {limit_s:g} s"))

    def end_spent_experiment(row: tuple[int, float, dt.datetime, float]) -> None:
        pk, limit_s, first_start, paused_s = row
        if (now - first_start).total_seconds() - paused_s > float(limit_s):
            stop_experiment(pk, f"its budget of {float(limit_s):g} s is used up")

    running = Attempt.objects.filter(state=AttemptState.RUNNING, run__cancel_requested_at=None)
    _each(list(running.select_related("run")), end_late_run)
    active = Experiment.objects.filter(state=ExperimentState.ACTIVE).annotate(first_start=Min("runs__started_at"))
    # A paused experiment's clock stands still: see services.pausing.
    started = active.exclude(first_start=None).order_by("pk")
    spent = started.values_list("pk", "spec__budget__max_seconds", "first_start", "paused_s")
    _each(list(spent), end_spent_experiment)


def _see_to_unclaimed(now: dt.datetime) -> None:
    unclaimed = Attempt.objects.filter(state=AttemptState.ASSIGNED).order_by("pk")
    given_up = unclaimed.filter(assigned_at__lt=now - dt.timedelta(seconds=UNCLAIMED_LIMIT_S))
    reason = f"its node did not claim it within {UNCLAIMED_LIMIT_S:g} s"
    _each(list(given_up.values_list("pk", flat=True)), lambda pk: lose_attempt(pk, reason))
    late = now - dt.timedelta(seconds=RESEND_AFTER_S)
    never_sent = Q(sent_at=None, assigned_at__lt=now - dt.timedelta(seconds=1))
    send_attempts(list(unclaimed.filter(never_sent | Q(sent_at__lt=late)).values_list("pk", flat=True)))


def _end_stopped(now: dt.datetime) -> None:
    lease_over = now - dt.timedelta(seconds=LEASE_OVER_S)
    stopped = Attempt.objects.filter(
        state=AttemptState.RUNNING, run__cancel_requested_at__lt=lease_over, node__last_seen_at__lt=lease_over
    )
    _each(list(stopped.values_list("pk", flat=True)), confirm_ended)


def _finish_interrupted(now: dt.datetime) -> None:
    reported = Attempt.objects.filter(state__in=ATTEMPT_LIVE, report__isnull=False)
    _each(list(reported.values_list("pk", flat=True)), finish_attempt)
    settled = now - dt.timedelta(seconds=WATCH_GAP_S)
    without_results = Run.objects.filter(
        state__in=RUN_ENDED, valid=None, final_attempt__isnull=False, ended_at__lt=settled
    )
    _each(list(without_results.values_list("pk", flat=True)), keep_results)
    # the states apart, each as one of the table's partial indexes has them
    open_runs = Run.objects.filter(
        Q(state=RunState.QUEUED) | Q(state__in=[RunState.ASSIGNED, RunState.RUNNING]), cancel_requested_at=None
    )
    cancelled = open_runs.filter(experiment__state=ExperimentState.CANCELLED).distinct("experiment_id")
    _each(
        list(cancelled.order_by("experiment_id").values_list("experiment_id", "experiment__reason")),
        lambda pair: stop_runs_of(*pair),
    )
    over = Experiment.objects.filter(state__in=EXPERIMENT_OPEN).exclude(~Q(runs__state__in=RUN_ENDED))
    _each(list(over.values_list("pk", flat=True)), settle_experiment)


def _heal_broker() -> None:
    try:
        changed = ensure_broker_users()
    except redis.RedisError as error:
        log.warning("the broker's users are not checked: %s", error)
        return
    if changed:
        log.info("set %d broker users right", changed)


def _heal_nodes() -> None:
    """BUSY says that an attempt is live, ONLINE that none is."""
    live = Node.objects.filter(attempts__state__in=ATTEMPT_LIVE).values("pk")
    _each(list(Node.objects.filter(state=NodeState.BUSY).exclude(pk__in=live)), lambda node: mark_idle(node.pk))
    _each(list(Node.objects.filter(state=NodeState.ONLINE, pk__in=live)), lambda node: mark_busy(node.pk))
