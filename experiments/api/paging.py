"""One way to page through everything that is listed: by key, in a stated order, with an opaque cursor.

    class NodeQuery(PageQuery):
        sort: Literal["name", "-name", "last_seen_at", "-last_seen_at"] = "name"

    page = read_page(rows, {"name": "name", "last_seen_at": "last_seen_at"}, asked)

A page begins after the last row of the one before, so rows that come or go meanwhile shift nothing. Rows that are
equal in the sorted column come in the order of their keys, and those without a value last, in both directions. The
cursor is signed and holds its sort: one made for another order, or made up, is refused.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core.signing import BadSignature, Signer
from django.db.models import F, Model, Q, QuerySet
from ninja import Schema
from pydantic import Field

from experiments.errors import BadParameter

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_CURSOR = 2000

Row = TypeVar("Row", bound=Model)


class PageQuery(Schema):
    """The parameters of every list. A list's own query adds `sort` and its filters."""

    sort: str
    cursor: str | None = Field(default=None, max_length=MAX_CURSOR, description="`next` of the page before.")
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)


@dataclass(frozen=True)
class Page(Generic[Row]):
    """`next` is the cursor of the following page; None on the last."""

    items: list[Row]
    next: str | None


def read_page(rows: QuerySet[Row], columns: Mapping[str, str], asked: PageQuery) -> Page[Row]:
    """The page that is asked for. `columns` says which column (a path of the model) each sort stands for.

    Raises BadParameter where the cursor was made for another sort, or never by the lab.
    """
    name, descending = asked.sort.removeprefix("-"), asked.sort.startswith("-")
    if name not in columns:
        raise BadParameter("sort", f"{asked.sort!r} is no order of this list", sorts_of(columns))
    column = columns[name]
    ordered = _in_order(rows, column, descending)
    if asked.cursor:
        ordered = ordered.filter(_after(column, descending, *_read_cursor(asked.cursor, asked.sort)))
    found = list(ordered[: asked.limit + 1])
    page = found[: asked.limit]
    more = len(found) > asked.limit
    return Page(page, _make_cursor(asked.sort, page[-1], column) if more else None)


def sorts_of(columns: Mapping[str, str]) -> list[str]:
    return [sign + name for name in columns for sign in ("", "-")]


def _in_order(rows: QuerySet[Row], column: str, descending: bool) -> QuerySet[Row]:
    if column == "pk":
        return rows.order_by("-pk" if descending else "pk")
    # Nulls come last; "last" is what Postgres does anyway for ascending order, and an index serves it.
    first = F(column).desc(nulls_last=True) if descending else F(column).asc(nulls_last=True)
    return rows.order_by(first, "-pk" if descending else "pk")


def _after(column: str, descending: bool, value: Any, key: int) -> Q:
    """The rows that come after the one with this value and key."""
    way = "lt" if descending else "gt"
    later_key = Q(**{f"pk__{way}": key})
    if column == "pk":
        return later_key
    if value is None:
        return Q(**{f"{column}__isnull": True}) & later_key
    later = Q(**{f"{column}__{way}": value}) | Q(**{f"{column}__isnull": True})
    return later | (Q(**{column: value}) & later_key)


_signer = Signer(salt="experiments.api.paging")


def _make_cursor(sort: str, row: Model, column: str) -> str:
    value: Any = row
    for part in column.split("__"):
        value = None if value is None else getattr(value, part)
    kind = "time" if isinstance(value, dt.datetime) else ""
    return _signer.sign_object([sort, kind, value.isoformat() if kind else value, row.pk], compress=True)


def _read_cursor(cursor: str, sort: str) -> tuple[Any, int]:
    try:
        made_for, kind, value, key = _signer.unsign_object(cursor)
    except (BadSignature, ValueError) as error:
        raise BadParameter("cursor", "this is no cursor of the lab", "`next` of the page before, or none") from error
    if made_for != sort:
        raise BadParameter("cursor", f"this cursor was made for sort={made_for}, not for sort={sort}", made_for)
    return (dt.datetime.fromisoformat(value) if kind == "time" else value), int(key)
