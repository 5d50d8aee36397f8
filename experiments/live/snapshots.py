"""Reads for the sockets: the state of a run, its stored events in order, the progress of an experiment.

Blocking; the sockets call them in threads (`in_thread`), each with a database connection of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from channels.db import database_sync_to_async
from django.db import connection
from django.utils import timezone

from experiments import selectors
from experiments.models import RUN_ENDED, Attempt, AttemptState, Experiment, ExperimentState, Run, RunState
from experiments.recorder.store import TABLES
from experiments.services.node_lease import LATE_EVENTS_S

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(read: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """The read as a coroutine that runs in a thread of the pool."""
    call: Callable[P, Awaitable[T]] = database_sync_to_async(read, thread_sensitive=False)
    return call


@dataclass(frozen=True)
class RunSnapshot:
    """A run now. `attempt` 0 before its first; `over` once nothing more will be stored or computed."""

    state: str
    phase: str
    phase_detail: str
    attempt: int
    node: str | None
    valid: bool | None
    reasons: tuple[str, ...]
    stored_seq: int
    over: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "phase": self.phase,
            "phase_detail": self.phase_detail,
            "attempt": self.attempt,
            "valid": self.valid,
            "reasons": list(self.reasons),
        }

    def looks_like(self, other: RunSnapshot | None) -> bool:
        """Whether a person would see no change."""
        return other is not None and replace(self, stored_seq=0, over=False) == replace(other, stored_seq=0, over=False)


def run_snapshot(run_id: int) -> RunSnapshot:
    """Raises Run.DoesNotExist."""
    run = Run.objects.only("state", "valid", "reasons", "ended_at", "final_attempt_id").get(id=run_id)
    attempt = Attempt.objects.filter(run_id=run_id).select_related("node").order_by("-number").first()
    return RunSnapshot(
        state=run.state,
        phase=attempt.phase if attempt else "",
        phase_detail=attempt.phase_detail if attempt else "",
        attempt=attempt.number if attempt else 0,
        node=attempt.node.slug if attempt and attempt.node else None,
        valid=run.valid,
        reasons=tuple(run.reasons),
        stored_seq=attempt.stored_seq if attempt else 0,
        over=_is_over(run, attempt, timezone.now()),
    )


def _is_over(run: Run, attempt: Attempt | None, now: datetime) -> bool:
    if run.state not in RUN_ENDED:
        return False
    if run.valid is not None or attempt is None or attempt.state == AttemptState.LOST:
        return True
    # Stopped or unclaimed: its last events may still come, for so long as the recorder waits for them.
    unclaimed = attempt.claimed_at is None
    return unclaimed or attempt.ended_at is None or now - attempt.ended_at > timedelta(seconds=LATE_EVENTS_S)


def stored_events(run_id: int, attempt: int, after: int, limit: int) -> list[tuple[int, str]]:
    """Stored events of every kind as (seq, JSON text), in order, up to `limit`."""
    tables = sorted({table for table, _ in TABLES.values()})
    one = "(SELECT seq, data FROM {} WHERE run_id = %s AND attempt = %s AND seq > %s ORDER BY seq LIMIT %s)"
    sql = " UNION ALL ".join(one.format(table) for table in tables) + " ORDER BY seq LIMIT %s"
    with connection.cursor() as cursor:
        cursor.execute(sql, [*[run_id, attempt, after, limit] * len(tables), limit])
        return [(seq, data if isinstance(data, str) else json.dumps(data)) for seq, data in cursor.fetchall()]


def experiment_progress(experiment_id: int) -> tuple[dict[str, Any], bool]:
    """The progress message of an experiment, and whether it is the last. Raises Experiment.DoesNotExist."""
    experiment = Experiment.objects.only("state").get(id=experiment_id)
    entries = selectors.runs_on_nodes(Run.objects.filter(experiment_id=experiment_id).order_by("position"))
    # Of the very rows that are sent: the last message must not count runs as they were a moment earlier.
    counts = {**dict.fromkeys(RunState.values, 0), **Counter(entry.run.state for entry in entries)}
    message = {
        "type": "progress",
        "experiment": {"state": experiment.state, "counts": counts},
        "runs": [_run_progress(entry) for entry in entries],
    }
    now = timezone.now()
    over = experiment.state != ExperimentState.ACTIVE and all(_is_over(e.run, e.attempt, now) for e in entries)
    return message, over


def _run_progress(entry: selectors.RunOnNode) -> dict[str, Any]:
    run, attempt = entry.run, entry.attempt
    live = run.state == RunState.RUNNING and attempt is not None
    return {
        "id": run.id,
        "state": run.state,
        "phase": entry.phase,
        "phase_detail": entry.attempt.phase_detail if entry.attempt else "",
        "node": entry.node,
        "valid": run.valid,
        "sample": selectors.latest_sample(run.id, attempt.number) if live and attempt else None,
        "progress": _share_done(run, attempt) if live and attempt else (1.0 if run.state in RUN_ENDED else 0.0),
    }


def _share_done(run: Run, attempt: Attempt) -> float | None:
    """Measured requests that have finished, as a share of those expected; None where only a duration is set."""
    expected = run.spec["workload"].get("num_requests")
    if not expected:
        return None
    return float(min(1.0, selectors.count_measured_requests(run.id, attempt.number) / expected))
