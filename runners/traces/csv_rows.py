"""Rows of traces published as CSV: Azure's LLM inference traces, and BurstGPT. Columns are found by their names."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence

from runners.traces import values
from runners.traces.lines import as_text
from runners.traces.rows import MAX_CLASS, MAX_SESSION, LineFault, TraceRow

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURST_COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
BURST_CLASS, BURST_SESSION = "Log Type", "Session ID"

Cells = dict[str, str]


class CsvRows:
    """The lines of one file, the first of which names the columns. Fields don't reach over line ends."""

    def __init__(self, needed: Sequence[str], to_row: Callable[[Cells], TraceRow | None]) -> None:
        self._needed = needed
        self._to_row = to_row
        self._columns: list[str] | None = None

    def take(self, number: int, line: bytes) -> list[TraceRow]:
        """The line's row; none for the header, and for a request that the trace says has failed. Raises LineFault."""
        cells = split(line)
        if self._columns is None:
            self._columns = _header(cells, self._needed)
            return []
        if len(cells) != len(self._columns):
            raise LineFault(f"{len(cells)} fields; allowed: {len(self._columns)}, as in the header")
        row = self._to_row(dict(zip(self._columns, cells, strict=True)))
        return [] if row is None else [row]


def azure_rows() -> CsvRows:
    return CsvRows(AZURE_COLUMNS, _azure)


def burst_rows() -> CsvRows:
    return CsvRows(BURST_COLUMNS, _burst)


def split(line: bytes) -> list[str]:
    try:
        (cells,) = csv.reader([as_text(line)], strict=True)
    except (csv.Error, ValueError) as error:
        raise error if isinstance(error, LineFault) else LineFault(f"no CSV: {error}") from error
    return [cell.strip() for cell in cells]


def _header(cells: list[str], needed: Sequence[str]) -> list[str]:
    missing = [name for name in needed if name not in cells]
    if missing:
        raise LineFault(f"the header lacks {', '.join(missing)}; it has {values.shown(cells)}")
    return cells


def _azure(cells: Cells) -> TraceRow:
    time, context, generated = AZURE_COLUMNS
    return TraceRow(
        values.moment_s(cells[time], time),
        values.tokens(cells[context], context),
        values.tokens(cells[generated], generated),
    )


def _burst(cells: Cells) -> TraceRow | None:
    """None for a request that failed: it has no tokens of a response."""
    time, request, response = BURST_COLUMNS
    output = values.tokens(cells[response], response, least=0)
    kind, session = cells.get(BURST_CLASS, ""), cells.get(BURST_SESSION, "")
    row = TraceRow(
        values.seconds(cells[time], time),
        values.tokens(cells[request], request, least=0),
        output,
        session=values.label(session, BURST_SESSION, MAX_SESSION) if session else None,
        traffic_class=values.label(kind, BURST_CLASS, MAX_CLASS) if kind else None,
    )
    return row if output and row.input_tokens else None
