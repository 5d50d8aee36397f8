"""Server-sent events: however the bytes are cut, the same events."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.sse import MAX_EVENT_BYTES, SseError, SseParser

LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=20)
EVENTS = st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=5)


def parse(pieces: list[bytes]) -> list[str]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400)))
def test_events_do_not_depend_on_where_the_bytes_are_cut(
    events: list[list[str]], newline: str, cuts: list[int]
) -> None:
    text = "".join(
        "".join(f"data: {line}{newline}" for line in lines) + f": note{newline}id: 1{newline}{newline}"
        for lines in events
    )
    raw = text.encode()
    marks = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in itertools.pairwise(marks)]
    assert parse(pieces) == ["\n".join(lines) for lines in events]
    assert parse([raw[i : i + 1] for i in range(len(raw))]) == ["\n".join(lines) for lines in events]


def test_an_event_that_was_not_ended_is_not_given() -> None:
    assert parse([b"data: whole\n\ndata: half\n"]) == ["whole"]


def test_only_one_blank_after_the_colon_is_taken_away() -> None:
    assert parse([b"data:  x\n\ndata:y\n\ndata\n\n"]) == [" x", "y", ""]


def test_bytes_that_are_not_utf8_are_an_error() -> None:
    with pytest.raises(SseError, match="not UTF-8"):
        parse([b"data: \xff\n\n"])


def test_an_endless_event_is_an_error_and_not_all_of_memory() -> None:
    parser = SseParser()
    with pytest.raises(SseError, match="longer than"):
        for _ in range(MAX_EVENT_BYTES // 65_536 + 2):
            parser.feed(b"data: " + b"x" * 65_536)
