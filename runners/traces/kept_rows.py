"""Reads a kept trace again, row by row, and cuts it: from a time on, for so many seconds, or so many rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from runners.spec.trace import TraceSpec
from runners.traces.json_rows import OwnRows
from runners.traces.rows import TraceRow


def kept_rows(path: Path, block_tokens: int) -> Iterator[TraceRow]:
    """All rows, in the order of their times. Raises OSError, and LineFault where somebody has changed the file."""
    rows = OwnRows(block_tokens)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield from rows.take(number, line)


def cut_rows(rows: Iterator[TraceRow], trace: TraceSpec) -> Iterator[TraceRow]:
    """The rows that `trace` takes of all."""
    until_s = None if trace.seconds is None else trace.start_s + trace.seconds
    return islice(_within(rows, trace.start_s, until_s), trace.num_requests)


def _within(rows: Iterator[TraceRow], start_s: float, until_s: float | None) -> Iterator[TraceRow]:
    for row in rows:
        if until_s is not None and row.timestamp_s >= until_s:
            return
        if row.timestamp_s >= start_s:
            yield row
