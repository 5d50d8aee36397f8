"""CSV (RFC 4180, UTF-8, a heading): null is an empty cell, a list or a nested value its JSON in one cell.

A text cell that a spreadsheet would run as a formula begins with an apostrophe. Numbers are left as they are: those
are never text here, so a negative one stays a number.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from experiments.exports.columns import Kind, Row
from experiments.exports.table import Table

# The wide forms too: spreadsheets of some languages take them for the narrow ones.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class CsvWriter:
    def __init__(self, table: Table) -> None:
        self._columns = table.columns

    def begin(self) -> bytes:
        return self._encode([[neutralised(column.name) for column in self._columns]])

    def rows(self, rows: list[Row]) -> bytes:
        return self._encode([[cell(column.kind, row.get(column.name)) for column in self._columns] for row in rows])

    def end(self) -> bytes:
        return b""

    def _encode(self, cells: list[list[str]]) -> bytes:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\r\n").writerows(cells)
        return text.getvalue().encode()


def cell(kind: Kind, value: Any) -> str:
    if value is None:
        return ""
    match kind:
        case Kind.TEXT:
            return neutralised(str(value))
        case Kind.TIME:
            return str(value.isoformat())
        case Kind.INT | Kind.FLOAT:
            return repr(value)
        case Kind.JSON if isinstance(value, str):
            return neutralised(value)
        case _:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)


def neutralised(text: str) -> str:
    """Text that a spreadsheet shows and does not run."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
