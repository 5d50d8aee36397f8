"""The records of runs as tables: requests, samples, steps and log lines, one row each.

Rows are read by their key, a piece at a time, rather than through a cursor: records are never changed, so the pieces
fit together, and a slow or absent reader holds neither a transaction nor a connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Func, IntegerField

from experiments.exports.columns import Column, Kind, Row, columns_of
from experiments.exports.table import MOST_BYTES, MOST_ROWS
from experiments.models import LogLine, Record, RequestRecord, Sample, StepRecord
from runners import events

RECORDS: dict[str, tuple[type[Record], type[events.Event]]] = {
    "requests": (RequestRecord, events.RequestRecord),
    "samples": (Sample, events.Sample),
    "steps": (StepRecord, events.Step),
    "log": (LogLine, events.Log),
}

WHOSE = (
    Column("run_id", Kind.INT),
    Column("attempt", Kind.INT),
    Column("modelled", Kind.BOOL),
    Column("seq", Kind.INT),
)


@dataclass(frozen=True)
class Source:
    """One attempt of a run whose records are wanted."""

    run_id: int
    attempt: int
    modelled: bool


def record_columns(kind: str) -> tuple[Column, ...]:
    return WHOSE + columns_of(RECORDS[kind][1])


def record_pieces(kind: str, sources: Sequence[Source]) -> Iterator[list[Row]]:
    """The rows of each attempt in the order of their numbers, at most MOST_ROWS and about MOST_BYTES at a time."""
    table = RECORDS[kind][0]
    names = [column.name for column in columns_of(RECORDS[kind][1])]
    for source in sources:
        for found in stored_pieces(table, source):
            yield [_row(source, seq, data, names) for seq, data in found]


def _row(source: Source, seq: int, data: dict[str, Any], names: Sequence[str]) -> Row:
    whose = {"run_id": source.run_id, "attempt": source.attempt, "modelled": source.modelled, "seq": seq}
    return whose | {name: data.get(name) for name in names}


def stored_pieces(table: type[Record], source: Source) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """(number, record) of each, in their order, in pieces of bounded size."""
    rows = table._default_manager.filter(run_id=source.run_id, attempt=source.attempt).order_by("seq")
    after = 0
    while (last := _end_of_piece(table, source, after)) is not None:
        yield list(rows.filter(seq__gt=after, seq__lte=last).values_list("seq", "data"))
        after = last


def _end_of_piece(table: type[Record], source: Source, after: int) -> int | None:
    """The number of the piece's last row; None where there is no row after `after`. Looks at sizes, not at data: a
    request of a long output holds megabytes of token times, a step a few hundred bytes."""
    size = Func(F("data"), function="pg_column_size", output_field=IntegerField())
    rows = table._default_manager.filter(run_id=source.run_id, attempt=source.attempt, seq__gt=after)
    last, total = None, 0
    for seq, stored_bytes in rows.order_by("seq").values_list("seq", size)[:MOST_ROWS]:
        total += stored_bytes
        if last is not None and total > MOST_BYTES:
            break
        last = seq
    return last
