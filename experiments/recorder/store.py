"""Writes a batch of events: COPY into the record tables and the move of the cursor, in one transaction.

The cursor moves by compare-and-set, and never for a lost attempt: of two recorders with the same batch one writes,
and what a lost attempt still says is not stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DataError, connection, transaction
from django.db.models import Case, F, Value, When
from django.utils import timezone

from experiments.models import Attempt, AttemptState
from experiments.recorder.batch import NumberedEvent, unreadable
from runners.events import AnyEvent, Report, Status

DETAIL_CHARACTERS = 200
# kind of event → table, and the event's fields that are columns there beside `data`
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "request": ("experiments_requestrecord", ("index", "phase", "status", "sent_s", "finished_s")),
    "sample": ("experiments_sample", ("t_s",)),
    "step": ("experiments_step", ("index", "start_s")),
    "log": ("experiments_logline", ("level",)),
    "status": ("experiments_statusrecord", ("kind",)),
    "report": ("experiments_statusrecord", ("kind",)),
}


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far an attempt is stored, and where its stream is. `reported` once its report is stored but not acted on."""

    attempt_id: int
    run_id: int
    number: int
    node_slug: str
    stored_seq: int
    reported: bool = False


def store_events(cursor: Cursor, events: Sequence[NumberedEvent]) -> bool:
    """Stores `events`, which follow the cursor without a gap. False, and nothing stored, when the cursor was not there
    any more or the attempt was lost or complete."""
    try:
        return _store(cursor, events)
    except DataError:
        # PostgreSQL refuses a value that the event's type allows (an integer past its column, say).
        return _store(cursor, [_storable(cursor, numbered) for numbered in events])


def _store(cursor: Cursor, events: Sequence[NumberedEvent]) -> bool:
    with transaction.atomic():
        at_cursor = Attempt.objects.filter(
            id=cursor.attempt_id, stored_seq=cursor.stored_seq, report__isnull=True
        ).exclude(state=AttemptState.LOST)
        if not at_cursor.update(**_attempt_changes(events)):
            return False
        copy_records(cursor.run_id, cursor.number, events)
    return True


def _attempt_changes(events: Sequence[NumberedEvent]) -> dict[str, Any]:
    changes: dict[str, Any] = {"stored_seq": events[-1].seq}
    bad = sum(not numbered.readable for numbered in events)
    if bad:
        changes["unreadable_events"] = F("unreadable_events") + bad
    statuses = [numbered.event for numbered in events if isinstance(numbered.event, Status)]
    if statuses:
        changes |= _phase_changes(statuses)
    last = events[-1]
    if isinstance(last.event, Report):
        changes |= {"report": json.loads(as_json(last.event)), "events": last.seq}
    return changes


def _phase_changes(statuses: Sequence[Status]) -> dict[str, Any]:
    """The last phase; and, where the node was fetching the model until now, now."""
    now, last = timezone.now(), statuses[-1]
    was_fetching = Case(When(phase="fetching", then=Value(now)), default=F("fetched_at"))
    return {
        "phase": last.phase,
        "phase_detail": last.detail[:DETAIL_CHARACTERS].replace("\0", "\ufffd"),
        "fetched_at": now if any(status.phase == "fetching" for status in statuses) else was_fetching,
    }


def copy_records(run_id: int, attempt: int, events: Iterable[NumberedEvent]) -> None:
    """Writes events to their tables; the attempt's own row is the caller's to keep in step, in one transaction."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for numbered in events:
        event = numbered.event
        _, columns = TABLES[event.kind]
        own = (getattr(event, column) for column in columns)
        rows.setdefault(event.kind, []).append((run_id, attempt, numbered.seq, as_json(event), *own))
    # COPY goes past Django's cursor, so its errors are turned into Django's here.
    with connection.wrap_database_errors, connection.cursor() as database:
        for kind, lines in rows.items():
            table, columns = TABLES[kind]
            names = ", ".join(("run_id", "attempt", "seq", "data", *columns))
            with database.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for line in lines:
                    copy.write_row(line)


def as_json(event: AnyEvent) -> str:
    """The event as PostgreSQL's jsonb takes it: a NUL character in a text becomes U+FFFD, NaN becomes null."""
    return event.model_dump_json().replace("\\u0000", "\\ufffd")


def _storable(cursor: Cursor, numbered: NumberedEvent) -> NumberedEvent:
    """The event itself where PostgreSQL takes it, else an error line in its place."""
    try:
        with transaction.atomic():
            copy_records(cursor.run_id, cursor.number, [numbered])
            transaction.set_rollback(True)
    except DataError as error:
        return unreadable(numbered.seq, str(error).splitlines()[0], as_json(numbered.event))
    return numbered
