"""Which entries of a stream may be stored next."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from experiments.recorder.batch import next_batch
from runners.events import Log, Report, Sample

SAMPLE = Sample(t_s=0.25, interval_s=0.25).model_dump_json().encode()
REPORT = Report(outcome="succeeded", events=2).model_dump_json().encode()

Entries = list[tuple[bytes, dict[bytes, bytes]]]


def entries(*seqs: int, attempt: int = 1, text: bytes = SAMPLE) -> Entries:
    return [(b"%d-%d" % (attempt, seq), {b"e": text}) for seq in seqs]


def seqs_of(taken: Entries, attempt: int = 1, after: int = 0) -> list[int]:
    return [one.seq for one in next_batch(taken, attempt, after).events]


def test_events_that_follow_the_cursor_are_taken() -> None:
    batch = next_batch(entries(3, 4, 5), 1, 2)
    assert [one.seq for one in batch.events] == [3, 4, 5]
    assert not batch.hole


def test_a_hole_ends_the_batch_and_is_told() -> None:
    batch = next_batch(entries(3, 4, 6, 7), 1, 2)
    assert [one.seq for one in batch.events] == [3, 4]
    assert batch.hole


def test_a_hole_at_the_cursor_gives_nothing() -> None:
    batch = next_batch(entries(5), 1, 2)
    assert (batch.events, batch.hole) == ((), True)


def test_what_is_stored_already_is_left_out() -> None:
    assert seqs_of(entries(1, 2, 3), after=2) == [3]


def test_entries_of_another_attempt_are_left_alone() -> None:
    batch = next_batch([*entries(1), *entries(1, attempt=2)], 1, 0)
    assert [one.seq for one in batch.events] == [1]
    assert not batch.hole
    assert seqs_of(entries(1, 2, attempt=1), attempt=2) == []


def test_nothing_is_taken_past_the_report() -> None:
    batch = next_batch([*entries(1), *entries(2, text=REPORT), *entries(3)], 1, 0)
    assert [one.seq for one in batch.events] == [1, 2]
    assert batch.report == Report(outcome="succeeded", events=2)


def test_an_unknown_kind_becomes_an_error_line_with_its_text() -> None:
    (numbered,) = next_batch(entries(1, text=b'{"kind":"dance"}'), 1, 0).events
    assert isinstance(numbered.event, Log)
    assert not numbered.readable
    assert numbered.event.level == "error"
    assert '{"kind":"dance"}' in numbered.event.message


def test_a_figure_that_is_no_number_is_unreadable() -> None:
    text = SAMPLE.replace(b'"t_s":0.25', b'"t_s":NaN')
    (numbered,) = next_batch(entries(1, text=text), 1, 0).events
    assert not numbered.readable
    assert "t_s" in numbered.event.message  # type: ignore[union-attr]


def test_a_report_that_cannot_be_read_still_ends_the_attempt_and_says_so() -> None:
    text = REPORT.replace(b'"events":2', b'"events":2,"joules":7')
    batch = next_batch(entries(4, text=text), 1, 3)
    assert batch.report is not None
    assert (batch.report.outcome, batch.report.retry, batch.report.events) == ("failed", False, 4)
    assert "report could not be read" in str(batch.report.error) and "joules" in str(batch.report.error)


def test_an_entry_without_the_event_field_is_unreadable() -> None:
    (numbered,) = next_batch([(b"1-1", {b"other": b"x"})], 1, 0).events
    assert not numbered.readable


@given(st.binary(max_size=300) | st.from_type(dict).map(lambda value: json.dumps(value, default=str).encode()))
def test_no_text_stops_the_reader(text: bytes) -> None:
    (numbered,) = next_batch(entries(1, text=text), 1, 0).events
    assert numbered.seq == 1


@given(st.lists(st.integers(1, 30), unique=True).map(sorted), st.integers(0, 30))
def test_the_events_taken_are_always_a_run_of_numbers_from_the_cursor(present: list[int], after: int) -> None:
    taken = seqs_of(entries(*present), after=after)
    assert taken == list(range(after + 1, after + 1 + len(taken)))
    assert after + len(taken) + 1 not in present
