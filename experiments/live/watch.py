"""One watch per run and web process: it follows the run's stream and state for every socket that shows the run.

A subscriber that reads too slowly loses events from its bounded queue, and is told how many. What happens to an event
on its way to one client is in `feed`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import redis.asyncio as aioredis
from django.conf import settings
from django.db import InterfaceError, OperationalError
from redis import RedisError

from experiments.live.snapshots import RunSnapshot, in_thread, run_snapshot
from experiments.recorder.batch import EVENT_FIELD, parse_id, read_event
from experiments.recorder.store import as_json
from hardware.broker import stream_key

log = logging.getLogger(__name__)

QUEUE_EVENTS = 5_000
READ_COUNT = 1_000
STATE_EVERY_S = 0.5
OUTAGE_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of the stream, as its JSON text."""

    attempt: int
    seq: int
    text: str


class WatchEnded(Exception):
    """The watch has failed; a client that connects again gets a new one."""

    retry = True


class Subscription:
    """What one socket has not yet taken: a bounded queue of events, and the run's latest state."""

    def __init__(self, snapshot: RunSnapshot, limit: int) -> None:
        self.snapshot = snapshot
        self.dropped = 0
        self._entries: deque[Entry] = deque()
        self._over: BaseException | None = None
        self._limit = limit
        self._news = asyncio.Event()

    def offer(self, entries: list[Entry]) -> None:
        """Queues events. When they are more than the queue holds, the older ones are dropped, and counted."""
        self._entries.extend(entries)
        while len(self._entries) > self._limit:
            self._entries.popleft()
            self.dropped += 1
        self._news.set()

    def show(self, snapshot: RunSnapshot) -> None:
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self._news.set()

    def take(self) -> tuple[list[Entry], int]:
        """What is queued, and how many events before it were dropped since the last call."""
        entries, dropped = list(self._entries), self.dropped
        self._entries.clear()
        self.dropped = 0
        return entries, dropped

    def fail(self, error: BaseException) -> None:
        """Nothing new will come."""
        self._over = error
        self._news.set()

    async def news(self) -> None:
        """Returns when there is something new. Raises WatchEnded when there never will be."""
        await self._news.wait()
        self._news.clear()
        if self._over:
            raise WatchEnded from self._over


class RunWatch:
    def __init__(self, run_id: int, snapshot: RunSnapshot, broker: aioredis.Redis) -> None:
        self.snapshot = snapshot
        self.subscribers: set[Subscription] = set()
        self._run_id = run_id
        self._broker = broker
        self._last_id: dict[int, Any] = {}

    async def run(self) -> None:
        """Reads until cancelled. An outage of either server is waited out; any other failure ends every subscriber."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_state())
                group.create_task(self._follow_stream())
        except Exception as error:
            log.exception("run %s can't be watched", self._run_id)
            for subscriber in self.subscribers:
                subscriber.fail(error)

    async def _follow_state(self) -> None:
        while True:
            await asyncio.sleep(STATE_EVERY_S)
            try:
                self.snapshot = await in_thread(run_snapshot)(self._run_id)
            except (OperationalError, InterfaceError) as error:
                log.warning("run %s: its state can't be read: %s", self._run_id, error)
                continue
            for subscriber in self.subscribers:
                subscriber.show(self.snapshot)

    async def _follow_stream(self) -> None:
        while True:
            try:
                await self._read_stream()
            except (RedisError, OSError) as error:
                log.warning("run %s: the stream can't be read: %s", self._run_id, error)
                await asyncio.sleep(OUTAGE_PAUSE_S)

    async def _read_stream(self) -> None:
        """One wait for new entries of the current attempt's stream. It begins after what was stored when the attempt
        was first seen: what is before is in Postgres for every subscriber, however late its own reading begins."""
        current = self.snapshot
        if current.node is None:
            await asyncio.sleep(STATE_EVERY_S)
            return
        key = stream_key(current.node, self._run_id)
        last_id = self._last_id.get(current.attempt, f"{current.attempt}-{current.stored_seq}")
        answer: Any = await self._broker.xread({key: last_id}, count=READ_COUNT, block=int(STATE_EVERY_S * 1000))
        for _, found in answer or []:
            self._last_id = {current.attempt: found[-1][0]}
            entries = [entry_of(entry_id, fields) for entry_id, fields in found]
            for subscriber in self.subscribers:
                subscriber.offer(entries)


def entry_of(entry_id: bytes, fields: dict[bytes, bytes]) -> Entry:
    """The event as the recorder will store it, an unreadable one too."""
    attempt, seq = parse_id(entry_id)
    return Entry(attempt, seq, as_json(read_event(seq, fields.get(EVENT_FIELD, b"")).event))


class Watches:
    """The watches of one event loop, each alive while somebody subscribes."""

    def __init__(self) -> None:
        self._watches: dict[int, tuple[RunWatch, asyncio.Task[None]]] = {}
        self.broker: aioredis.Redis = aioredis.Redis.from_url(settings.REDIS_URL, socket_timeout=10)

    @asynccontextmanager
    async def subscribe(self, run_id: int, limit: int = QUEUE_EVENTS) -> AsyncIterator[Subscription]:
        snapshot = await in_thread(run_snapshot)(run_id)
        if run_id not in self._watches or self._watches[run_id][1].done():
            watch = RunWatch(run_id, snapshot, self.broker)
            self._watches[run_id] = (watch, asyncio.create_task(watch.run()))
        watch, task = self._watches[run_id]
        subscription = Subscription(snapshot, limit)
        watch.subscribers.add(subscription)
        try:
            yield subscription
        finally:
            watch.subscribers.discard(subscription)
            if not watch.subscribers:
                if self._watches.get(run_id) == (watch, task):
                    del self._watches[run_id]
                task.cancel()
                await asyncio.wait([task])


_of_loop: dict[asyncio.AbstractEventLoop, Watches] = {}


def watches() -> Watches:
    """Those of the running event loop: connections and tasks belong to one."""
    loop = asyncio.get_running_loop()
    for other in [known for known in _of_loop if known.is_closed()]:
        del _of_loop[other]
    return _of_loop.setdefault(loop, Watches())
