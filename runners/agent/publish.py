"""Sends what the spools hold to the run's streams, in order, under explicit ids, and again where it was lost.

Before every batch it asks how far the stream goes, and sends what comes after that (or after what the recorder has
stored, if that is further): a restart of the broker or of the agent loses nothing and doubles nothing. A node that
is ahead of the recorder by its quota waits. What is on disk is never touched here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runners.agent.broker import BrokerError, StreamBroker
from runners.agent.home import NodeHome
from runners.spool import AttemptKey, SpoolReader

QUOTA_EVENTS = 20_000
BATCH_EVENTS = 500
BATCH_BYTES = 1 << 20
IDLE_S = 0.1
CHECK_S = 1.0
MAX_BACKOFF_S = 5.0
# A cursor that stands still for this many heartbeats, with events waiting, makes us look for a hole in the stream.
STALLS_BEFORE_LOOKING = 2

log = logging.getLogger(__name__)


@dataclass
class Course:
    """How far one attempt's events have been sent. `stale`: the stream has a later attempt, ours no longer counts."""

    reader: SpoolReader
    checked_s: float = float("-inf")
    stored: int = 0
    stalls: int = 0
    stale: bool = False

    @property
    def sent(self) -> int:
        return self.reader.next_seq - 1


class Publisher:
    """Takes every spool of a home to the broker, a batch at a time. Knows nothing of runs beyond their spools."""

    def __init__(
        self, home: NodeHome, broker: StreamBroker, stream_key: Callable[[int], str], quota: int = QUOTA_EVENTS
    ) -> None:
        self._home = home
        self._broker = broker
        self._stream_key = stream_key
        self._quota = quota
        self._courses: dict[AttemptKey, Course] = {}
        self._stored: Mapping[str, int] | None = None
        self._news = False

    def heard(self, stored: Mapping[str, int]) -> None:
        """The recorder's cursors, by `<run>-<attempt>`. Nothing is sent before they are known. Any thread may call."""
        self._stored = dict(stored)
        self._news = True

    def publish(self) -> int:
        """Sends at most one batch of every spool; how many events went out. Raises BrokerError."""
        if self._stored is None:
            return 0
        news, self._news = self._news, False
        keys = self._home.spooled()
        for gone in self._courses.keys() - set(keys):
            del self._courses[gone]
        return sum(self._publish_one(key, news) for key in keys)

    def _publish_one(self, key: AttemptKey, news: bool) -> int:
        course = self._courses.setdefault(key, Course(SpoolReader(self._home.spool(key))))
        if course.stale:
            return 0
        try:
            if news:
                self._hear(key, course)
            return self._send(key, course)
        except FileNotFoundError:  # discarded meanwhile: everything of it is stored, or it no longer counts
            return 0

    def _send(self, key: AttemptKey, course: Course) -> int:
        events = self._read(course)
        if not events and time.monotonic() - course.checked_s < CHECK_S:
            return 0
        resume = self._resume_after(key, course) + 1
        if course.stale:
            return 0
        if resume != course.reader.next_seq - len(events):
            course.reader.rewind(resume)
            events = self._read(course)
        if events:
            first_seq = course.reader.next_seq - len(events)
            self._broker.add(self._stream_key(key.run_id), key.attempt, first_seq, events)
        return len(events)

    def _read(self, course: Course) -> list[bytes]:
        """The next events that the quota leaves room for."""
        room = self._quota - (course.sent - course.stored)
        return course.reader.read(min(BATCH_EVENTS, room), BATCH_BYTES) if room > 0 else []

    def _resume_after(self, key: AttemptKey, course: Course) -> int:
        """The last event that need not be sent: it is in the stream, or stored already."""
        attempt, seq = self._broker.last_id(self._stream_key(key.run_id))
        course.checked_s = time.monotonic()
        if attempt > key.attempt:
            course.stale = True
            log.warning("attempt %s has been followed by attempt %d: its events are no longer sent", key, attempt)
        return max(seq if attempt == key.attempt else 0, course.stored)

    def _hear(self, key: AttemptKey, course: Course) -> None:
        """Takes over the recorder's cursor, and mends the stream when that stands still before a hole in it."""
        stored = (self._stored or {}).get(str(key), 0)
        course.stalls = course.stalls + 1 if stored == course.stored and course.sent > stored else 0
        course.stored = stored
        if course.stalls < STALLS_BEFORE_LOOKING:
            return
        course.stalls = 0
        stream = self._stream_key(key.run_id)
        wanted = (key.attempt, stored + 1)
        if self._broker.first_id_from(stream, *wanted) != wanted:
            log.warning("event %d of attempt %s is missing in its stream: sending from there again", stored + 1, key)
            # Ids only grow, so what is missing can't be put back: the stream is written anew.
            self._broker.delete(stream)
            course.reader.rewind(stored + 1)


class PublisherThread(threading.Thread):
    """Publishes until stopped; a broker that can't be reached is tried again with growing pauses."""

    def __init__(self, publisher: Publisher) -> None:
        super().__init__(name="publisher", daemon=True)
        self._publisher = publisher
        self._stop_asked = threading.Event()
        self._drained = threading.Event()

    def run(self) -> None:
        pause_s = 0.0
        while not self._stop_asked.wait(pause_s):
            pause_s = self._round(pause_s)

    def _round(self, last_pause_s: float) -> float:
        """One round; how long to wait before the next."""
        try:
            sent = self._publisher.publish()
        except BrokerError as error:
            self._drained.clear()
            if last_pause_s <= IDLE_S:
                log.warning("the broker does not answer (%s); events wait on disk", error)
            return min(MAX_BACKOFF_S, max(2 * last_pause_s, 0.5))
        if last_pause_s > IDLE_S:
            log.info("the broker answers again")
        if sent:
            self._drained.clear()
            return 0.0
        self._drained.set()
        return IDLE_S

    def wait_until_sent(self, timeout_s: float) -> bool:
        """Waits until a round, begun after this call, found nothing to send."""
        self._drained.clear()
        return self._drained.wait(timeout_s)

    def stop(self) -> None:
        self._stop_asked.set()
