"""Parquet: typed columns, zstd, and whose rows these are in the schema's metadata. Nested values are JSON text.

Rows are gathered to groups of a useful size; what is gathered is bounded, and each group leaves as soon as it is full.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.exports.columns import Column, Kind, Row
from experiments.exports.table import Table

GROUP_ROWS = 32_768
GROUP_BYTES = 16 * 1024 * 1024

TYPES: dict[Kind, pa.DataType] = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.TEXT: pa.string(),
    Kind.JSON: pa.string(),
    Kind.TIME: pa.timestamp("us", tz="UTC"),
    Kind.INTS: pa.list_(pa.int64()),
    Kind.FLOATS: pa.list_(pa.float64()),
}


class ParquetWriter:
    def __init__(self, table: Table) -> None:
        self._columns = table.columns
        fields = [pa.field(column.name, TYPES[column.kind]) for column in table.columns]
        self._schema = pa.schema(fields, metadata=table.metadata)
        self._sink = _Outlet()
        self._file = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._gathered: list[pa.RecordBatch] = []

    def begin(self) -> bytes:
        return self._sink.take()

    def rows(self, rows: list[Row]) -> bytes:
        self._gathered.append(self._batch(rows))
        full = sum(batch.num_rows for batch in self._gathered) >= GROUP_ROWS
        if full or sum(batch.nbytes for batch in self._gathered) >= GROUP_BYTES:
            self._write_group()
        return self._sink.take()

    def end(self) -> bytes:
        self._write_group()
        self._file.close()
        return self._sink.take()

    def _write_group(self) -> None:
        if self._gathered:
            self._file.write_table(pa.Table.from_batches(self._gathered, self._schema))
            self._gathered = []

    def _batch(self, rows: list[Row]) -> pa.RecordBatch:
        arrays = [
            pa.array([_value(column, row.get(column.name)) for row in rows], TYPES[column.kind])
            for column in self._columns
        ]
        return pa.record_batch(arrays, schema=self._schema)


class _Outlet(io.RawIOBase):
    """A file that only grows; what was written is taken away and not kept."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _value(column: Column, value: Any) -> Any:
    if column.kind is not Kind.JSON or value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
