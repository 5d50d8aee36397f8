"""The spool of one attempt: its events on disk, one JSON line each, until the lab has stored them all.

Line n is event n, so the file alone gives every event its number. One process appends (the run's, and after its end
the agent), any other reads. Whoever dies while writing leaves a torn last line: it was never an event, and `seal`
cuts it off. Nothing here talks to a broker.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from runners.events import EVENT, AnyEvent, Report

SUFFIX = ".jsonl"
RESERVE = ".reserve"
"""A file in the spools' folder that holds room for reports: whoever has to write one on a full disk removes it."""
RESERVE_BYTES = 1 << 20
PIECE_BYTES = 1 << 20
_NAME = re.compile(r"(\d+)-(\d+)")


class AttemptKey(NamedTuple):
    """Which attempt of which run; `str()` gives the name under which its files lie."""

    run_id: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.run_id}-{self.attempt}"

    @classmethod
    def parse(cls, name: str) -> AttemptKey:
        """Raises ValueError where `name` isn't `<run>-<attempt>`."""
        found = _NAME.fullmatch(name)
        if not found:
            raise ValueError(f"{name!r} names no attempt, expected <run>-<attempt>")
        return cls(int(found[1]), int(found[2]))


class SpoolFull(Exception):
    """The disk takes no more events. All that were appended before are whole; nothing of these is there."""

    retry = False

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"no room for the run's events in {path.parent} of the node: {error.strerror}; make room there"
        )


class SpoolComplete(Exception):
    """The spool already ends in a Report; nothing comes after an attempt's last event."""


@dataclass(frozen=True)
class SpoolEnd:
    """How far a spool goes. `report` is its last event where that is a Report."""

    events: int
    report: Report | None


class SpoolWriter:
    """Appends events to a spool, numbering on from what the file holds. Not for two writers at once."""

    def __init__(self, path: Path) -> None:
        """Raises SpoolComplete, SpoolFull."""
        end = seal(path)
        if end.report is not None:
            raise SpoolComplete(f"{path.name} already ends in a report")
        self.path = path
        self.events = end.events
        self.complete = False
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise SpoolFull(path, error) from error
        self._size = path.stat().st_size

    def append(self, events: Iterable[AnyEvent]) -> None:
        """Appends in order, all or none; readers see them when this returns. Raises SpoolFull."""
        lines = [event.model_dump_json().encode() + b"\n" for event in events]
        if self.complete:
            raise SpoolComplete(f"{self.path.name} already ends in a report")
        self._write(b"".join(lines))
        self.events += len(lines)

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._file.truncate(self._size)
            raise SpoolFull(self.path, error) from error
        self._size += len(content)

    def close_with(self, report: Report) -> None:
        """Appends the attempt's last event, with the count of all of them, and makes the file durable. On a full disk
        the room that is kept for this is used. Raises SpoolFull where there is none."""
        last = [report.model_copy(update={"events": self.events + 1})]
        try:
            self.append(last)
        except SpoolFull:
            (self.path.parent / RESERVE).unlink(missing_ok=True)
            self.append(last)
        self.complete = True
        os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        self._file.close()


def keep_reserve(folder: Path) -> bool:
    """Keeps room for reports in the spools' folder; False where the disk has too little."""
    path = folder / RESERVE
    if path.exists():
        return True
    draft = folder / f"{RESERVE}.new"
    try:
        with draft.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        draft.rename(path)
    except OSError:  # whatever the disk says: there is no room that could be counted on
        draft.unlink(missing_ok=True)
        return False
    return True


def seal(path: Path, piece_bytes: int = PIECE_BYTES) -> SpoolEnd:
    """Cuts off a torn last line and says how far the spool goes; a spool that isn't there has no events.

    Only for who alone writes it. It is read in pieces, as it may be far larger than the memory. Raises ValueError
    (pydantic's) where the last whole line is no event.
    """
    if not path.exists():
        return SpoolEnd(0, None)
    with path.open("r+b") as file:
        events, start, end = _last_line(file, piece_bytes)
        if end != file.seek(0, os.SEEK_END):
            file.truncate(end)
        file.seek(start)
        last = file.read(end - start)
    if not events:
        return SpoolEnd(0, None)
    event = EVENT.validate_json(last)
    return SpoolEnd(events, event if isinstance(event, Report) else None)


def _last_line(file: BinaryIO, piece_bytes: int) -> tuple[int, int, int]:
    """How many whole lines there are, and where the last of them begins and ends."""
    lines, start, end, offset = 0, 0, 0, 0
    while piece := file.read(piece_bytes):
        lines += piece.count(b"\n")
        last = piece.rfind(b"\n")
        if last >= 0:
            before = piece.rfind(b"\n", 0, last)
            start, end = (end if before < 0 else offset + before + 1), offset + last + 1
        offset += len(piece)
    return lines, start, end


@dataclass
class SpoolReader:
    """Reads a spool's whole lines in order, while it grows. `next_seq` is the number of the event to come next."""

    path: Path
    next_seq: int = 1
    offset: int = 0

    def read(self, max_events: int, max_bytes: int) -> list[bytes]:
        """The next events as JSON, at most `max_events`, at most about `max_bytes` (but at least one event)."""
        lines: list[bytes] = []
        size = 0
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while len(lines) < max_events and size < max_bytes:
                line = file.readline()
                if not line.endswith(b"\n"):
                    break
                lines.append(line[:-1])
                size += len(line)
        self.offset += size
        self.next_seq += len(lines)
        return lines

    def rewind(self, next_seq: int) -> None:
        """Goes to the event of that number, or to the file's end where it has fewer."""
        self.next_seq, self.offset = 1, 0
        while self.next_seq < next_seq:
            if not self.read(max_events=min(next_seq - self.next_seq, 10_000), max_bytes=1 << 26):
                return
