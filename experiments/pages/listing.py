"""What every page with a list shares: filters, sort and cursor are the address's, and are those of the REST list.

A parameter that can't be taken is left out, and the page says so: an address that was cut short or is of another
version still shows the list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from django.http import HttpRequest
from pydantic import ValidationError

from experiments.api.paging import PageQuery
from experiments.errors import BadParameter

PAGE_SIZE = 30

Query = TypeVar("Query", bound=PageQuery)
Found = TypeVar("Found")


@dataclass(frozen=True)
class Asked(Generic[Query]):
    """`given` are the parameters that were taken, as text; `faults` say what was left out."""

    query: Query
    given: dict[str, str]
    faults: list[str] = field(default_factory=list)

    @property
    def filtered(self) -> bool:
        return any(name not in ("sort", "cursor") for name in self.given)

    def address(self, **changes: str | None) -> str:
        """The query string of this list with some parameters changed, from its beginning unless a cursor is given."""
        kept = {**self.given, "cursor": None, **changes}
        return "?" + urlencode({name: value for name, value in kept.items() if value})


def ask(kind: type[Query], request: HttpRequest) -> Asked[Query]:
    """The list's query as the address has it."""
    known = kind.model_fields.keys() - {"limit"}
    given = {name: value for name in known if (value := request.GET.get(name, ""))}
    faults = []
    try:
        query = kind.model_validate({**given, "limit": PAGE_SIZE})
    except ValidationError as error:
        for fault in error.errors():
            name = str(fault["loc"][0]) if fault["loc"] else ""
            faults.append(f"{name}: {fault['msg']}")
            given.pop(name, None)
        query = kind.model_validate({**given, "limit": PAGE_SIZE})
    return Asked(query, given, faults)


def take(asked: Asked[Query], find: Callable[[Query], Found]) -> tuple[Found, Asked[Query]]:
    """What `find` gives for the query; where it refuses the cursor or the sort, for the list's beginning."""
    try:
        return find(asked.query), asked
    except BadParameter as error:
        plain = asked.query.model_copy(update={"cursor": None})
        given = {name: value for name, value in asked.given.items() if name != "cursor"}
        return find(plain), Asked(plain, given, [*asked.faults, f"{error.field}: {error.message}"])


def list_context(asked: Asked[Query], following: str | None) -> dict[str, Any]:
    """What the filters' form and the footer with the pages need."""
    return {
        "asked": asked,
        "given": asked.given,
        "following": asked.address(cursor=following) if following else None,
        "first": asked.address() if "cursor" in asked.given else None,
    }
