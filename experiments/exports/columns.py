"""The columns of an export: their names, which carry the unit, and their types. Derived from runners.events, so that a
field that is added there is exported too."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from runners.events import Event


class Kind(Enum):
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TEXT = "text"
    TIME = "time"
    INTS = "ints"
    FLOATS = "floats"
    JSON = "json"


@dataclass(frozen=True)
class Column:
    """Any value may be null: it was not measured, or the field is younger than the record."""

    name: str
    kind: Kind


Row = Mapping[str, Any]

SCALARS = {int: Kind.INT, float: Kind.FLOAT, bool: Kind.BOOL, str: Kind.TEXT}
LISTS = {int: Kind.INTS, float: Kind.FLOATS}


def columns_of(event: type[Event]) -> tuple[Column, ...]:
    """The fields of an event, but for `kind`, which all rows of a table have in common."""
    fields = {name: field.annotation for name, field in event.model_fields.items() if name != "kind"}
    return tuple(Column(name, kind_of(annotation)) for name, annotation in fields.items())


def kind_of(annotation: Any) -> Kind:
    """`int`, `float | None`, `Literal["a"]`, `list[float]` and the like; what has no column type of its own is JSON."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        (only, *others) = [part for part in inner if part is not type(None)]
        return Kind.JSON if others else kind_of(only)
    if origin is Literal:
        return Kind.TEXT
    if origin is list:
        return LISTS.get(inner[0], Kind.JSON)
    return SCALARS.get(annotation, Kind.JSON)


def kind_of_values(values: Iterable[Any]) -> Kind:
    """The narrowest type that holds all of these."""
    found = {type(value) for value in values if value is not None}
    if len(found) == 1:
        return SCALARS.get(found.pop(), Kind.JSON)
    return Kind.FLOAT if found == {int, float} else Kind.JSON
