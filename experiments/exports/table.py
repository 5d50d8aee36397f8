"""A table that is to be written: its columns, what is known of it as a whole, its rows in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from experiments.exports.columns import Column, Row

MOST_ROWS = 2_000
"""Rows of one piece."""

MOST_BYTES = 1_000_000
"""Bytes of one piece as they lie in the database (compressed); one row may be larger."""


@dataclass(frozen=True)
class Table:
    """`pieces` may be read once. `metadata` says whose rows these are: it goes into a Parquet file's schema."""

    name: str
    columns: tuple[Column, ...]
    pieces: Iterator[list[Row]]
    metadata: dict[str, str] = field(default_factory=dict)
