"""JSON Lines: one object a line, every column in it, nested values as they are, null where nothing was measured."""

from __future__ import annotations

import json

from experiments.exports.columns import Column, Kind, Row
from experiments.exports.table import Table


class JsonlWriter:
    def __init__(self, table: Table) -> None:
        self._columns = table.columns

    def begin(self) -> bytes:
        return b""

    def rows(self, rows: list[Row]) -> bytes:
        return "".join(self._line(row) for row in rows).encode()

    def end(self) -> bytes:
        return b""

    def _line(self, row: Row) -> str:
        whole = {column.name: _plain(column, row) for column in self._columns}
        return json.dumps(whole, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(column: Column, row: Row) -> object:
    value = row.get(column.name)
    return value.isoformat() if column.kind is Kind.TIME and value is not None else value
