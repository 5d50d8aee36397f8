"""Figures of sessions (conversations, agents' tasks) from the records of their requests.

A session has ended when all the requests that it was planned with have, or when one has failed, for then no more
follow. One that the window's end cut short counts nowhere. Pure, and knows no objective: whether a request was useful
it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from runners.events import RequestRecord


@dataclass(frozen=True)
class EndedSession:
    """`time_s` is from its first request's sending to its last answer's end; None where it failed. It is `useful` where
    every request of it was."""

    time_s: float | None
    useful: bool


def ended_sessions(
    records: Iterable[RequestRecord], is_useful: Callable[[RequestRecord], bool]
) -> tuple[EndedSession, ...]:
    """Of all records that name a session."""
    by_session: dict[str, list[RequestRecord]] = {}
    for record in records:
        if record.session is not None:
            by_session.setdefault(record.session, []).append(record)
    ended = (_ended(one, is_useful) for one in by_session.values())
    return tuple(one for one in ended if one is not None)


def _ended(records: Sequence[RequestRecord], is_useful: Callable[[RequestRecord], bool]) -> EndedSession | None:
    if any(record.status != "ok" or record.finished_s is None for record in records):
        cut = all(record.status in ("ok", "cancelled") for record in records)
        return None if cut else EndedSession(None, useful=False)
    if len(records) < (records[0].session_requests or 0):
        return None
    end_s = max(record.finished_s for record in records if record.finished_s is not None)
    return EndedSession(end_s - min(record.sent_s for record in records), all(map(is_useful, records)))
