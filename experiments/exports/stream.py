"""A table as a stream of bytes: one piece is read, written and sent before the next is looked for.

Reading and writing happen in the request's own thread, between two sends, so the event loop stays free and a slow
reader slows this export alone. Between pieces no connection is held: one that goes away leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.db import connection

from experiments.exports.formats import Format, writer_for
from experiments.exports.table import Table


async def stream_table(form: Format, table: Table) -> AsyncIterator[bytes]:
    writer = writer_for(form, table)

    def next_bytes() -> bytes | None:
        try:
            rows = next(table.pieces, None)
            return None if rows is None else writer.rows(rows)
        finally:
            if not connection.in_atomic_block:
                connection.close()  # which gives it back to the pool

    yield writer.begin()
    while (part := await sync_to_async(next_bytes)()) is not None:
        if part:
            yield part
    yield await sync_to_async(writer.end)()
