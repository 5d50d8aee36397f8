"""One client's way through a run: what Postgres has after its position, then the stream, each event once, in order.

At a hole it reads Postgres again; an event that is nowhere yet is waited for. Only what a slow client's queue had to
drop is left out, and the client is told how many events and from where it can ask for them again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import redis.asyncio as aioredis
from redis import RedisError

from experiments.live.snapshots import RunSnapshot, in_thread, stored_events
from experiments.live.watch import Entry, Subscription, entry_of
from hardware.broker import stream_key

PAGE = 1_000
FRAME_CHARACTERS = 128 * 1024

Send = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Position:
    """The last event that the client has. Attempt 0: nothing yet."""

    attempt: int = 0
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.attempt}-{self.seq}"


class RunFeed:
    def __init__(
        self, run_id: int, start: Position, subscription: Subscription, broker: aioredis.Redis, send: Send
    ) -> None:
        self._run_id = run_id
        self._position = start
        self._subscription = subscription
        self._broker = broker
        self._send = send
        self._shown: RunSnapshot | None = None
        self._behind = True

    async def follow(self) -> None:
        """Sends until the run is over and all of it is sent."""
        while True:
            snapshot = self._subscription.snapshot
            await self._tell_attempt(snapshot)
            if snapshot.over:
                await self._send_stored()
                await self._tell_state(snapshot)
                await self._send_message({"type": "end"})
                return
            await self._tell_state(snapshot)
            await self._tell_events(snapshot)
            await self._subscription.news()

    async def _tell_state(self, snapshot: RunSnapshot) -> None:
        if not snapshot.looks_like(self._shown):
            await self._send_message({"type": "state", "run": snapshot.as_json()})
        self._shown = snapshot

    async def _tell_attempt(self, snapshot: RunSnapshot) -> None:
        if snapshot.attempt and snapshot.attempt != self._position.attempt:
            self._position = Position(snapshot.attempt)
            self._behind = True
            await self._send_message({"type": "attempt", "attempt": snapshot.attempt})

    async def _tell_events(self, snapshot: RunSnapshot) -> None:
        if self._behind:
            # What is queued, or was dropped meanwhile, is read from its source.
            self._subscription.take()
            await self._send_stored()
            await self._send_streamed(snapshot)
            self._behind = False
        entries, dropped = self._subscription.take()
        entries = [entry for entry in entries if self._is_ahead(entry)]
        if dropped and entries and entries[0].seq > self._position.seq + 1:
            lost = entries[0].seq - self._position.seq - 1
            await self._send_message({"type": "dropped", "count": lost, "resume": str(self._position)})
            self._position = Position(self._position.attempt, entries[0].seq - 1)
        if not await self._send_next(entries):
            self._behind = True

    def _is_ahead(self, entry: Entry) -> bool:
        return entry.attempt == self._position.attempt and entry.seq > self._position.seq

    async def _send_next(self, entries: list[Entry]) -> bool:
        """Sends those that follow the position without a gap. False when there are others past a gap."""
        ready: list[Entry] = []
        for entry in filter(self._is_ahead, entries):
            if entry.seq != self._position.seq + len(ready) + 1:
                await self._send_events(ready)
                return False
            ready.append(entry)
        await self._send_events(ready)
        return True

    async def _send_stored(self) -> None:
        while True:
            attempt, after = self._position.attempt, self._position.seq
            rows = await in_thread(stored_events)(self._run_id, attempt, after, PAGE)
            await self._send_events([Entry(attempt, seq, text) for seq, text in rows])
            if len(rows) < PAGE:
                return

    async def _send_streamed(self, snapshot: RunSnapshot) -> None:
        """What the stream has after the position. A broker that is down is left to the watch to wait for."""
        if snapshot.node is None:
            return
        key = stream_key(snapshot.node, self._run_id)
        while True:
            try:
                found: Any = await self._broker.xrange(key, min=f"({self._position}", count=PAGE)
            except (RedisError, OSError):
                return
            if not await self._send_next([entry_of(*one) for one in found]) or len(found) < PAGE:
                return

    async def _send_events(self, entries: list[Entry]) -> None:
        for frame in split_frames(entries):
            events = ",".join(f'["{entry.attempt}-{entry.seq}",{entry.text}]' for entry in frame)
            await self._send(f'{{"type":"events","events":[{events}]}}')
            self._position = Position(frame[-1].attempt, frame[-1].seq)

    async def _send_message(self, message: dict[str, Any]) -> None:
        await self._send(json.dumps(message, separators=(",", ":")))


def split_frames(entries: list[Entry]) -> Iterator[list[Entry]]:
    """The entries in frames that common clients take: below FRAME_CHARACTERS, but for one that is larger alone."""
    frame: list[Entry] = []
    size = 0
    for entry in entries:
        if frame and size + len(entry.text) > FRAME_CHARACTERS:
            yield frame
            frame, size = [], 0
        frame.append(entry)
        size += len(entry.text)
    if frame:
        yield frame
