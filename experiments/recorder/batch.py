"""From a stream's entries to the numbered events that may be stored next. Pure: touches no stream and no table."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from runners.events import EVENT, AnyEvent, Log, Report

EVENT_FIELD = b"e"
KEPT_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event and its number in the attempt. `readable` is false for the log line that stands for a bad event."""

    seq: int
    event: AnyEvent
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that follow the cursor without a gap, up to and with the report; `hole` when entries lie past a gap."""

    events: tuple[NumberedEvent, ...]
    hole: bool = False

    @property
    def report(self) -> Report | None:
        last = self.events[-1].event if self.events else None
        return last if isinstance(last, Report) else None


def next_batch(entries: Iterable[tuple[bytes, Mapping[bytes, bytes]]], attempt: int, after: int) -> Batch:
    """What of `entries`, read in stream order from `<attempt>-<after>` on, may be stored after event `after`.

    Entries of other attempts are left alone; nothing past a report is taken.
    """
    events: list[NumberedEvent] = []
    for entry_id, fields in entries:
        number, seq = parse_id(entry_id)
        if number != attempt or seq <= after:
            continue
        if seq != after + len(events) + 1:
            return Batch(tuple(events), hole=True)
        events.append(read_event(seq, fields.get(EVENT_FIELD, b"")))
        if isinstance(events[-1].event, Report):
            break
    return Batch(tuple(events))


def parse_id(entry_id: bytes) -> tuple[int, int]:
    attempt, _, seq = entry_id.partition(b"-")
    return int(attempt), int(seq)


def read_event(seq: int, text: bytes) -> NumberedEvent:
    """The event; or an error line with the start of what came instead, and in place of a report one that says so."""
    try:
        return NumberedEvent(seq, EVENT.validate_json(text))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        why = f"{where}: {fault['msg']}" if where else fault["msg"]
        if fault["loc"][:1] == ("report",):
            # Nothing follows it: without one the run would wait for its time limit.
            told = f"the node's report could not be read: {why}"
            return NumberedEvent(seq, Report(outcome="failed", error=told, events=seq), readable=False)
        return unreadable(seq, why, text.decode("utf-8", "replace"))


def unreadable(seq: int, why: str, text: str) -> NumberedEvent:
    message = f"event {seq} could not be read: {why}: {text[:KEPT_CHARACTERS]}"
    return NumberedEvent(
        seq, Log(wall_s=time.time(), level="error", source="recorder", message=message), readable=False
    )
