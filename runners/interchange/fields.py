"""Values of a foreign file, each asked for by name and type: what is of another type is refused with its place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runners.interchange.errors import BadFile

MAX_TEXT = 200
LARGEST = 1e15


class Fields:
    """An object of the file and where it stands. Absent and null are the same: not measured."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, Mapping):
            raise BadFile(where, "is no object", "an object")
        self._values = values
        self._where = where

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def names(self) -> list[str]:
        return list(self._values)

    def raw(self, name: str) -> Any:
        return self._values.get(name)

    def sub(self, name: str) -> Fields:
        """An object in it; an empty one where it is absent."""
        found = self._values.get(name)
        return Fields({} if found is None else found, self.place(name))

    def number(self, name: str, *, least: float | None = 0.0) -> float | None:
        found = self._values.get(name)
        return None if found is None else number_of(found, self.place(name), least=least)

    def count(self, name: str) -> int | None:
        found = self._values.get(name)
        return None if found is None else count_of(found, self.place(name))

    def text(self, name: str) -> str:
        """Empty where it is absent, cut where it is long."""
        found = self._values.get(name)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise BadFile(self.place(name), f"{found!r:.40} is no text", "text")
        return found[:MAX_TEXT]

    def place(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def needed(self, name: str) -> float:
        found = self.number(name)
        if found is None:
            raise BadFile(self.place(name), "is missing", "a number")
        return found

    def needed_count(self, name: str) -> int:
        found = self.count(name)
        if found is None:
            raise BadFile(self.place(name), "is missing", "a whole number from 0")
        return found


def number_of(value: Any, where: str, *, least: float | None = 0.0) -> float:
    allowed = "a number" if least is None else f"a number from {least:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadFile(where, f"{value!r:.40} is no number", allowed)
    if not math.isfinite(value) or abs(value) > LARGEST * 1e4 or (least is not None and value < least):
        raise BadFile(where, f"{value!r:.40} can't be", allowed)
    return float(value)


def count_of(value: Any, where: str) -> int:
    number = number_of(value, where)
    if number != int(number) or number > LARGEST:
        raise BadFile(where, f"{value!r:.40} is no count", "a whole number from 0")
    return int(number)
