"""The recorder's loop: reads the streams of open attempts and stores what follows each cursor.

It waits at a hole, goes on with other attempts when one gives trouble, and outlives its database and its broker: both
are asked again with growing pauses. Nothing here is remembered that a restart would miss.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import redis
from django.conf import settings
from django.db import InterfaceError, OperationalError, connections
from django.db.models import Q
from django.utils import timezone

from experiments.models import ATTEMPT_LIVE, Attempt, AttemptState
from experiments.recorder.batch import next_batch
from experiments.recorder.store import Cursor, store_events
from experiments.recorder.trim import Trimmer, drop_unfillable_tail, is_wrong_type
from experiments.services import finish_attempt
from experiments.services.node_lease import LATE_EVENTS_S
from hardware.broker import stream_key

log = logging.getLogger(__name__)

READ_COUNT = 5_000
BLOCK_MS = 200
TURN_S = 0.05
IDLE_TURN_S = 0.2
HOLE_RETRY_S = 0.5
HOLE_GIVEN_UP_S = 3.0
TROUBLE_PAUSE_S = 5.0
TRIM_EVERY_S = 5.0
LONGEST_PAUSE_S = 5.0
OUTAGES = (OperationalError, InterfaceError, redis.ConnectionError, redis.TimeoutError)
Action = Callable[[Cursor], int]


class Recorder:
    """One recorder over one broker. `turn` does one round and may be called without the loop; `idle` says whether it
    found no stream to read."""

    def __init__(self, broker: redis.Redis) -> None:
        self._broker = broker
        self._trimmer = Trimmer(broker)
        self._paused_until: dict[int, float] = {}
        self._hole_since: dict[int, float] = {}
        self._trim_at = 0.0
        self.idle = True

    def turn(self, block_ms: int = BLOCK_MS) -> int:
        """Stores what there is to store, waiting up to `block_ms` for something. Gives the number of events stored."""
        cursors = open_cursors()
        for cursor in cursors:
            if cursor.reported:
                # A recorder ended between storing the report and acting on it.
                self._guarded(cursor, self._finish)
        by_key = {stream_key(c.node_slug, c.run_id): c for c in cursors if not c.reported and self._may_read(c)}
        self.idle = not by_key
        stored = self._read_and_store(by_key, block_ms) if by_key else 0
        if time.monotonic() >= self._trim_at:
            self._trim_at = time.monotonic() + TRIM_EVERY_S
            self.trim_now()
        return stored

    def trim_now(self) -> None:
        """Drops from the streams what is no longer needed there, and forgets what has ended."""
        cursors = open_cursors()
        self._trimmer.trim(cursors)
        for memory in (self._paused_until, self._hole_since):
            for attempt_id in memory.keys() - {cursor.attempt_id for cursor in cursors}:
                del memory[attempt_id]

    def _read_and_store(self, by_key: dict[str, Cursor], block_ms: int) -> int:
        positions = {key: f"{c.number}-{c.stored_seq}" for key, c in by_key.items()}
        stored = 0
        for key, entries in read_streams(self._broker, positions, block_ms):
            stored += self._guarded(by_key[key.decode()], partial(self._store, entries))
        return stored

    def _store(self, entries: list[tuple[bytes, dict[bytes, bytes]]], cursor: Cursor) -> int:
        batch = next_batch(entries, cursor.number, cursor.stored_seq)
        if not batch.events:
            self._wait_at_hole(cursor, batch.hole)
            return 0
        self._hole_since.pop(cursor.attempt_id, None)
        if not store_events(cursor, batch.events):
            return 0
        if batch.report:
            self._finish(cursor)
        return len(batch.events)

    def _wait_at_hole(self, cursor: Cursor, hole: bool) -> None:
        """Events are missing, or the stream holds only a later attempt's: look again in a moment, not at once."""
        now = time.monotonic()
        self._paused_until[cursor.attempt_id] = now + HOLE_RETRY_S
        if not hole:
            self._hole_since.pop(cursor.attempt_id, None)
            return
        since = self._hole_since.setdefault(cursor.attempt_id, now)
        if now - since > HOLE_GIVEN_UP_S and drop_unfillable_tail(self._broker, cursor):
            log.warning("run %s, attempt %s: a hole after event %s; the node must send again from there",
                        cursor.run_id, cursor.number, cursor.stored_seq)  # fmt: skip
            del self._hole_since[cursor.attempt_id]

    def _finish(self, cursor: Cursor) -> int:
        finish_attempt(cursor.attempt_id)
        return 0

    def _guarded(self, cursor: Cursor, action: Action) -> int:
        """One attempt's trouble is logged and tried again later; it stops no other attempt."""
        try:
            return action(cursor)
        except OUTAGES:
            raise
        except Exception:
            log.exception("run %s, attempt %s: could not be recorded, tried again later", cursor.run_id, cursor.number)
            self._paused_until[cursor.attempt_id] = time.monotonic() + TROUBLE_PAUSE_S
            return 0

    def _may_read(self, cursor: Cursor) -> bool:
        return time.monotonic() >= self._paused_until.get(cursor.attempt_id, 0.0)


def read_streams(broker: redis.Redis, positions: dict[str, str], block_ms: int) -> list[Any]:
    """What lies past each position, as `XREAD` gives it. A key that is no stream would refuse the reading of all: it
    is removed, and its node sends again from what is stored."""
    try:
        return _xread(broker, positions, block_ms)
    except redis.ResponseError as error:
        if not is_wrong_type(error):
            raise
    found: list[Any] = []
    for key, position in positions.items():
        try:
            found += _xread(broker, {key: position}, None)
        except redis.ResponseError as error:
            if not is_wrong_type(error):
                raise
            log.warning("%s is no stream, and is removed: only its node could write it", key)
            broker.unlink(key)
    return found


def _xread(broker: redis.Redis, positions: dict[Any, Any], block_ms: int | None) -> list[Any]:
    answer: Any = broker.xread(positions, count=READ_COUNT, block=block_ms)
    return answer or []


def open_cursors() -> list[Cursor]:
    """Live attempts, and those that were stopped a short while ago with events still on their node."""
    late = Q(
        state__in=[AttemptState.CANCELLED, AttemptState.FAILED],
        report__isnull=True,
        ended_at__gt=timezone.now() - timedelta(seconds=LATE_EVENTS_S),
    )
    rows = (
        Attempt.objects.filter(Q(state__in=ATTEMPT_LIVE) | late)
        .order_by("id")
        .values_list("id", "run_id", "number", "node__slug", "stored_seq", "events")
    )
    return [Cursor(*row[:5], reported=row[5] is not None) for row in rows]


def record_until(stop: threading.Event) -> None:
    """Records until `stop` is set. An outage of Postgres or of the broker is waited out."""
    broker = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=10, health_check_interval=15)
    recorder = Recorder(broker)
    pause_s = 0.0
    log.info("recorder ready")
    while not stop.wait(pause_s or (IDLE_TURN_S if recorder.idle else TURN_S)):
        try:
            recorder.turn()
        except OUTAGES as error:
            pause_s = min(max(pause_s * 2, 0.1), LONGEST_PAUSE_S)
            log.warning("recorder waits %.1f s: %s", pause_s, str(error).splitlines()[0])
            connections.close_all()
            continue
        if pause_s:
            log.info("recorder is back")
        pause_s = 0.0
    connections.close_all()
    broker.close()
