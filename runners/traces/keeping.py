"""A trace as it is kept: one file in our own format, ordered by time, its times counted from the first row.

`keep_trace` makes that file of an uploaded one, and reads it whole while it does; lines that can't be taken refuse it,
unless they are to be skipped. What is remembered of a row is two numbers, so that a million fit.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from runners.traces.figures import TraceFigures
from runners.traces.formats import DEFAULT_BLOCK_TOKENS, FORMAT_OF, FormatName, detect, first_bytes, read_rows
from runners.traces.json_rows import to_line
from runners.traces.rows import LONGEST_TRACE_S, MAX_ROWS, BadLine, BadLines, TraceError, TraceRow

TOLD_BAD_LINES = 20
GIVE_UP_AFTER = 1_000
CHUNK_BYTES = 1024 * 1024


class TraceTooLarge(TraceError):
    """More rows, or longer, than a trace may have."""


class EmptyTrace(TraceError):
    def __init__(self) -> None:
        super().__init__("there is no request in it")


@dataclass(frozen=True)
class KeptTrace:
    """What was kept: `sha256` is that of the kept file, `source_sha256` that of what came. `skipped` lines gave no
    row; `bad_lines` are the first of them."""

    format: FormatName
    sha256: str
    source_sha256: str
    bytes: int
    rows: int
    block_tokens: int
    skipped: int
    bad_lines: list[BadLine]
    summary: dict[str, Any]


def keep_trace(
    source: BinaryIO,
    kept: Path,
    format_name: str | None = None,
    block_tokens: int | None = None,
    skip_bad_lines: bool = False,
) -> KeptTrace:
    """Reads `source` (which can be set back to its beginning) and writes the file `kept`. Raises TraceError; `kept` may
    then hold a part of it."""
    form = FORMAT_OF[format_name or detect(first_bytes(source))]
    block = form.block_tokens or block_tokens or DEFAULT_BLOCK_TOKENS
    figures, faults = TraceFigures(), _Faults(skip_bad_lines)
    with kept.open("w+b") as file:
        index = _write(_good_rows(read_rows(source, form, block), faults), file, figures)
        faults.check()
        if not index.times_s:
            raise EmptyTrace
        _put_in_order(file, index)
        size = file.tell()
    return KeptTrace(
        form.name, digest_of(kept), _digest(source), size, len(index.times_s), block, faults.count, faults.lines,
        figures.as_json(),
    )  # fmt: skip


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return _digest(file)


class _Faults:
    """Lines that could not be taken: the first are kept, the others counted."""

    def __init__(self, skip: bool) -> None:
        self._skip = skip
        self.count = 0
        self.lines: list[BadLine] = []

    def take(self, bad: BadLine) -> None:
        """Raises BadLines where there are so many that reading on would be in vain."""
        self.count += 1
        if len(self.lines) < TOLD_BAD_LINES:
            self.lines.append(bad)
        if not self._skip and self.count >= GIVE_UP_AFTER:
            raise BadLines(self.lines, self.count)

    def check(self) -> None:
        if self.count and not self._skip:
            raise BadLines(self.lines, self.count)


@dataclass(frozen=True)
class _Index:
    """Of the rows written: their times (from the first one on) and the ends of their lines."""

    times_s: array[float]
    ends: array[int]


def _good_rows(found: Iterator[TraceRow | BadLine], faults: _Faults) -> Iterator[TraceRow]:
    for one in found:
        if isinstance(one, BadLine):
            faults.take(one)
        else:
            yield one


def _write(rows: Iterator[TraceRow], file: BinaryIO, figures: TraceFigures) -> _Index:
    """Writes the rows as they come. Raises TraceTooLarge."""
    index = _Index(array("d"), array("q"))
    zero_s, end, low_s, high_s = 0.0, 0, 0.0, 0.0
    for row in rows:
        if len(index.times_s) == MAX_ROWS:
            raise TraceTooLarge(f"more than {MAX_ROWS:,} rows; allowed: at most so many, cut the file")
        zero_s = zero_s if index.times_s else row.timestamp_s
        shifted = replace(row, timestamp_s=round(row.timestamp_s - zero_s, 6))
        low_s, high_s = min(low_s, shifted.timestamp_s), max(high_s, shifted.timestamp_s)
        if high_s - low_s > LONGEST_TRACE_S:
            raise TraceTooLarge(f"it spans {high_s - low_s:,.0f} s; allowed: at most {LONGEST_TRACE_S:,.0f} s, a year")
        end += file.write(to_line(shifted))
        index.times_s.append(shifted.timestamp_s)
        index.ends.append(end)
        figures.take(shifted)
    return index


def _put_in_order(file: BinaryIO, index: _Index) -> None:
    """Orders the lines by their times, those of one moment as they were; the file then stands at its end."""
    times_s = np.frombuffer(index.times_s, dtype=np.float64)
    if np.all(np.diff(times_s) >= 0):
        return
    ends = np.frombuffer(index.ends, dtype=np.int64)
    begins = np.concatenate([[0], ends[:-1]])
    zero_s = float(times_s.min())
    with tempfile.TemporaryFile(dir=Path(file.name).parent) as ordered:
        for place in np.argsort(times_s, kind="stable").tolist():
            file.seek(begins[place])
            row = json.loads(file.read(ends[place] - begins[place]))
            row["timestamp_s"] = round(row["timestamp_s"] - zero_s, 6)
            ordered.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
        file.seek(0)
        file.truncate()
        ordered.seek(0)
        shutil.copyfileobj(ordered, file)


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()
