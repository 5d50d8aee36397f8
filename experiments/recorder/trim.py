"""Keeps the nodes' streams short: drops what is stored, but for the last minute, and streams that nobody needs.

A socket that follows a stream finds the last minute there and anything older in Postgres.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable
from datetime import timedelta

import redis
from django.db.models import Q
from django.utils import timezone

from experiments.models import ATTEMPT_LIVE, Attempt
from experiments.recorder.store import Cursor
from hardware.broker import stream_key

KEPT_S = 60.0
SWEEP_EVERY_S = 30.0
# No run has a longer number: a key that a node named otherwise is needed by nobody.
STREAM_KEY = re.compile(rb"node:(?P<slug>[A-Za-z0-9_-]+):run:(?P<run>\d{1,18})")

# Atomic, so that a node that has just begun to send again keeps what it sent.
DROP_TAIL = """
local first = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 1)
if #first == 0 or first[1][1] == ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
"""


def drop_unfillable_tail(broker: redis.Redis, cursor: Cursor) -> bool:
    """Removes a stream whose entries lie past a hole: a stream takes no smaller id than its last, so the node could
    never fill it. The node still has the events on its disk. False when there is no hole any more."""
    key = stream_key(cursor.node_slug, cursor.run_id)
    here, following = f"{cursor.number}-{cursor.stored_seq}", f"{cursor.number}-{cursor.stored_seq + 1}"
    return bool(broker.eval(DROP_TAIL, 1, key, here, following))


class Trimmer:
    """Remembers when each attempt was stored how far, so that it can tell what was stored a minute ago."""

    def __init__(self, broker: redis.Redis) -> None:
        self._broker = broker
        self._stored: dict[int, deque[tuple[float, int]]] = {}
        self._sweep_at = 0.0

    def trim(self, cursors: Iterable[Cursor]) -> None:
        now = time.monotonic()
        live = {cursor.attempt_id: cursor for cursor in cursors}
        self._stored = {attempt_id: self._stored.get(attempt_id, deque()) for attempt_id in live}
        for attempt_id, cursor in live.items():
            history = self._stored[attempt_id]
            history.append((now, cursor.stored_seq))
            while len(history) > 1 and history[1][0] <= now - KEPT_S:
                history.popleft()
            if history[0][0] <= now - KEPT_S and history[0][1] > 0:
                self._trim_stream(cursor, history[0][1])
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_EVERY_S
            sweep_ended_streams(self._broker)

    def _trim_stream(self, cursor: Cursor, stored_seq: int) -> None:
        key = stream_key(cursor.node_slug, cursor.run_id)
        try:
            self._broker.xtrim(key, minid=f"{cursor.number}-{stored_seq}", approximate=False)
        except redis.ResponseError as error:
            # The next reading removes it.
            if not is_wrong_type(error):
                raise


def is_wrong_type(error: redis.ResponseError) -> bool:
    """Whether the broker refused because the key holds something else than a stream."""
    return str(error).startswith("WRONGTYPE")


def sweep_ended_streams(broker: redis.Redis, kept_s: float = KEPT_S) -> int:
    """Removes the streams of runs that have no live attempt on their node and had none in the last `kept_s`."""
    removed = 0
    for key in broker.scan_iter(match="node:*:run:*", count=1000):
        found = STREAM_KEY.fullmatch(key)
        if not found or not _is_needed(found["slug"].decode(), int(found["run"]), kept_s):
            removed += int(broker.unlink(key))
    return removed


def _is_needed(slug: str, run_id: int, kept_s: float) -> bool:
    ended_lately = Q(ended_at__gt=timezone.now() - timedelta(seconds=kept_s))
    attempts = Attempt.objects.filter(run_id=run_id, node__slug=slug)
    return attempts.filter(Q(state__in=ATTEMPT_LIVE) | ended_lately).exists()
