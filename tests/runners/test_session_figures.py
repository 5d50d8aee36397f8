"""Which sessions have ended, how long they took, and whether a closed loop of sessions was at its load."""

from __future__ import annotations

from typing import Any

import pytest

from runners.events import RequestRecord
from runners.session_figures import EndedSession, ended_sessions
from runners.steady_state import share_at_load, spans_under_way
from runners.thinking_figures import count_thinking, time_to_answer_s


def record(session: str | None, turn: int, sent_s: float, finished_s: float | None, **more: Any) -> RequestRecord:
    return RequestRecord(
        **{
            "index": turn, "request_id": f"{session}-{turn}-{sent_s}", "phase": "measured", "scheduled_s": sent_s,
            "sent_s": sent_s, "finished_s": finished_s, "status": "ok", "session": session, "turn": turn,
            "session_requests": 2, **more,
        }
    )  # fmt: skip


def ended(*records: RequestRecord, useful: bool = True) -> tuple[EndedSession, ...]:
    return ended_sessions(records, lambda _: useful)


def test_a_session_takes_from_its_first_sending_to_its_last_answer() -> None:
    assert ended(record("a", 1, 1.0, 2.0), record("a", 2, 5.0, 7.5)) == (EndedSession(6.5, useful=True),)


def test_a_session_is_useful_only_if_every_request_of_it_is() -> None:
    records = [record("a", 1, 1.0, 2.0), record("a", 2, 5.0, 7.5)]
    (found,) = ended_sessions(records, lambda one: one.turn == 1)
    assert not found.useful and found.time_s == 6.5


def test_one_that_was_cut_short_counts_nowhere_and_one_that_failed_has_no_time() -> None:
    assert ended(record("a", 1, 1.0, 2.0)) == ()
    assert ended(record("a", 1, 1.0, 2.0), record("a", 2, 3.0, None, status="cancelled")) == ()
    assert ended(record("a", 1, 1.0, None, status="error")) == (EndedSession(None, useful=False),)
    assert ended(record(None, 1, 1.0, 2.0)) == ()


def test_a_session_is_under_way_while_its_person_thinks() -> None:
    records = [record("a", 1, 0.0, 1.0), record("a", 2, 8.0, 9.0), record("b", 1, 2.0, 3.0)]
    spans = spans_under_way(records)
    assert spans == [(0.0, 9.0), (2.0, None)]
    assert share_at_load(spans, [(0.0, 10.0, 1)]) == 1.0
    assert share_at_load(spans, [(0.0, 10.0, 2)]) == pytest.approx(0.7)
    assert share_at_load(spans, [(0.0, 4.0, 1), (4.0, 10.0, 2)]) == pytest.approx(0.9)


def test_the_answer_begins_with_the_first_token_after_the_thinking() -> None:
    told = {"token_times_s": [1.5, 2.0, 3.0], "token_counts": [2, 2, 2], "output_tokens": 6}
    assert time_to_answer_s(record(None, 1, 1.0, 3.0, thinking_tokens=3, **told)) == 1.0
    assert time_to_answer_s(record(None, 1, 1.0, 3.0, thinking_tokens=4, **told)) == 2.0
    assert time_to_answer_s(record(None, 1, 1.0, 3.0, thinking_tokens=6, **told)) is None
    assert time_to_answer_s(record(None, 1, 1.0, 3.0, **told)) is None
    records = [record(None, 1, 1.0, 3.0, thinking_tokens=4, **told), record(None, 1, 1.0, 3.0, **told)]
    assert count_thinking(records) == 4
