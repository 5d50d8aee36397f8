"""The formats of an export and how each is written: bytes before the rows, of some rows, and after them."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from experiments.exports.columns import Row
from experiments.exports.csv_text import CsvWriter
from experiments.exports.jsonl import JsonlWriter
from experiments.exports.parquet import ParquetWriter
from experiments.exports.table import Table

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

CONTENT_TYPES: dict[Format, str] = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


class Writer(Protocol):
    """Called in this order, once, any number of times, once. What is returned may be empty."""

    def begin(self) -> bytes: ...

    def rows(self, rows: list[Row]) -> bytes: ...

    def end(self) -> bytes: ...


def writer_for(form: Format, table: Table) -> Writer:
    match form:
        case "jsonl":
            return JsonlWriter(table)
        case "csv":
            return CsvWriter(table)
        case "parquet":
            return ParquetWriter(table)
