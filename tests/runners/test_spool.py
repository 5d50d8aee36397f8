"""runners.spool: what is written is read back in order, and a torn end does no harm."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from runners.events import EVENT, Log, Report
from runners.spool import AttemptKey, SpoolComplete, SpoolReader, SpoolWriter, seal


def line(number: int, text: str = "") -> Log:
    return Log(wall_s=time.time(), level="info", source="test", message=f"{number} {text}")


def read_all(path: Path) -> list[bytes]:
    return SpoolReader(path).read(max_events=1_000_000, max_bytes=1 << 30)


def test_events_are_read_back_in_order_and_the_report_counts_itself(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "1-1.jsonl")
    writer.append([line(1), line(2)])
    writer.append([line(3)])
    writer.close_with(Report(outcome="succeeded"))
    events = [EVENT.validate_json(text) for text in read_all(tmp_path / "1-1.jsonl")]
    assert [event.kind for event in events] == ["log", "log", "log", "report"]
    assert isinstance(events[-1], Report) and events[-1].events == 4


def test_nothing_follows_a_report(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "1-1.jsonl")
    writer.close_with(Report(outcome="failed"))
    with pytest.raises(SpoolComplete):
        writer.append([line(1)])
    with pytest.raises(SpoolComplete):
        SpoolWriter(tmp_path / "1-1.jsonl")
    assert len(read_all(tmp_path / "1-1.jsonl")) == 1


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=20),
    cut=st.integers(min_value=0, max_value=10_000),
    piece_bytes=st.integers(min_value=1, max_value=400),
)
def test_a_spool_torn_anywhere_goes_on_after_its_last_whole_event(
    texts: list[str], cut: int, piece_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("torn") / "7-2.jsonl"
    writer = SpoolWriter(path)
    writer.append(line(number, text) for number, text in enumerate(texts))
    writer.close()
    content = path.read_bytes()
    path.write_bytes(content[: min(cut, len(content))])
    whole = path.read_bytes().count(b"\n")
    assert seal(path, piece_bytes).events == whole

    again = SpoolWriter(path)
    assert again.events == whole
    again.close_with(Report(outcome="failed", error="torn"))

    events = [EVENT.validate_json(text) for text in read_all(path)]
    assert len(events) == whole + 1
    assert isinstance(events[-1], Report) and events[-1].events == whole + 1
    assert seal(path, piece_bytes).report == events[-1]


def test_a_reader_leaves_a_line_that_is_not_whole_yet(tmp_path: Path) -> None:
    path = tmp_path / "1-1.jsonl"
    path.write_bytes(b'{"a":1}\n{"b"')
    reader = SpoolReader(path)
    assert reader.read(10, 1 << 20) == [b'{"a":1}']
    assert reader.read(10, 1 << 20) == []
    with path.open("ab") as file:
        file.write(b":2}\n")
    assert reader.read(10, 1 << 20) == [b'{"b":2}']
    assert reader.next_seq == 3


@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=10), target=st.integers(1, 60))
def test_a_rewound_reader_goes_on_with_the_event_it_was_sent_to(
    sizes: list[int], target: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("rewind") / "1-1.jsonl"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(1, 51)))
    reader = SpoolReader(path)
    for size in sizes:
        reader.read(size, 1 << 20)
    reader.rewind(target)
    assert reader.next_seq == min(target, 51)
    rest = reader.read(100, 1 << 20)
    assert rest == [b"%d" % number for number in range(min(target, 51), 51)]


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "1-1.jsonl"
    path.write_bytes(b'{"kind":"nonsense"}\n')
    with pytest.raises(ValidationError, match="nonsense"):
        seal(path)


def test_a_spool_that_is_not_there_has_no_events(tmp_path: Path) -> None:
    assert seal(tmp_path / "1-1.jsonl").events == 0


def test_a_key_reads_back_its_own_name() -> None:
    assert AttemptKey.parse(str(AttemptKey(12, 3))) == (12, 3)
    for wrong in ("12", "a-1", "1-2-3", "1-1.jsonl", ""):
        with pytest.raises(ValueError, match="names no attempt"):
            AttemptKey.parse(wrong)
