"""A page of a list that is small enough to be held in memory, with the same parameters and cursors as `paging`.

For what does not stand in one table. Items are sorted by the asked key, equal ones by name; names are unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.core.signing import BadSignature, Signer

from experiments.api.paging import PageQuery, sorts_of
from experiments.errors import BadParameter

Item = TypeVar("Item")
_signer = Signer(salt="experiments.api.held_list")


def cut_page(
    items: Iterable[Item], name_of: Callable[[Item], str], keys: Mapping[str, Callable[[Item], Any]], asked: PageQuery
) -> tuple[list[Item], str | None]:
    """The page that is asked for, and the cursor of the next. `keys` says by what each sort sorts.

    Raises BadParameter where the sort is unknown or the cursor was made for another, or never by the lab.
    """
    name, descending = asked.sort.removeprefix("-"), asked.sort.startswith("-")
    if name not in keys:
        raise BadParameter("sort", f"{asked.sort!r} is no order of this list", sorts_of({name: name for name in keys}))

    def place(item: Item) -> tuple[Any, str]:
        return keys[name](item), name_of(item)

    ordered = sorted(items, key=place, reverse=descending)
    if asked.cursor:
        last = _read_cursor(asked.cursor, asked.sort)
        ordered = [item for item in ordered if (place(item) < last if descending else place(item) > last)]
    page, more = ordered[: asked.limit], len(ordered) > asked.limit
    return page, _signer.sign_object([asked.sort, *place(page[-1])], compress=True) if more else None


def _read_cursor(cursor: str, sort: str) -> tuple[Any, str]:
    try:
        made_for, value, name = _signer.unsign_object(cursor)
    except (BadSignature, ValueError) as error:
        raise BadParameter("cursor", "this is no cursor of the lab", "`next` of the page before, or none") from error
    if made_for != sort:
        raise BadParameter("cursor", f"this cursor was made for sort={made_for}, not for sort={sort}", made_for)
    return value, str(name)
