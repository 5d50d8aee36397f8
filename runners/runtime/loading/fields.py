"""Named values of a model's configuration, typed and checked, so that none that matters is passed over.

A reader takes the keys it knows; `refuse_rest` then refuses any other that is switched on, unless it is listed as one
that changes no logits. It knows no key itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from runners.runtime.model_file import ModelFileError, shown

MAX_SIZE = 2**31 - 1

MIN_NUMBER, MAX_NUMBER = 1e-30, 1e30
"""No model is near these, and no arithmetic on numbers between them overflows."""


class Fields:
    """The values of one file; null counts as absent. `part` comes before a key in errors: `config.json `, or
    `metadata llama.`."""

    def __init__(self, path: Path, part: str, values: Mapping[str, Any]) -> None:
        self.path, self._part, self._values = path, part, values
        self._taken: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def take(self, key: str) -> Any:
        """The value, whatever its type; None if absent."""
        self._taken.add(key)
        return self._values.get(key)

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self._given(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_SIZE:
            raise self.error(key, f"a whole number from 1 to {MAX_SIZE}", value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number above 0 that arithmetic can bear."""
        value = self._given(key, default)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not MIN_NUMBER <= value <= MAX_NUMBER:
            raise self.error(key, f"a number from {MIN_NUMBER} to {MAX_NUMBER}", value)
        return float(value)

    def optional_size(self, key: str, default: int | None = None) -> int | None:
        """As `size`; None for null, and `default` only where the key isn't there at all."""
        return self.size(key, default) if self._given_or_default(key, default) else None

    def optional_number(self, key: str, default: float | None = None) -> float | None:
        """As `number`; None for null, and `default` only where the key isn't there at all."""
        return self.number(key, default) if self._given_or_default(key, default) else None

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._given(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false", value)
        return value

    def one_of(self, key: str, allowed: Collection[Any], default: Any = None) -> Any:
        """One of some values; anything else can't be computed here."""
        value = self._given(key, default)
        if not any(value == each and type(value) is type(each) for each in allowed):
            raise self.error(key, " or ".join(repr(each) for each in allowed), value)
        return value

    def items(self, key: str, count: int) -> list[Any] | None:
        """A list with one item for each layer; None if absent."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count:
            found = f"a list of {len(value)}" if isinstance(value, list) else value
            raise self.error(key, f"a list of {count} items", found)
        return value

    def inner(self, key: str) -> Fields | None:
        """The fields of an object; None if absent."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, "an object", value)
        return Fields(self.path, f"{self._part}{key} ", value)

    def refuse_rest(self, harmless: Collection[str]) -> None:
        """Raises ModelFileError for a key that nobody took, is on, and isn't known to change nothing."""
        for key, value in self._values.items():
            off = value is None or value is False or value in ("", [], {})
            if not (off or key in self._taken or key in harmless or key.startswith("_")):
                raise self.error(key, "no such key: its effect on the result is not known", value)

    def error(self, key: str, expected: str, found: object) -> ModelFileError:
        text = "nothing" if found is None else shown(repr(found))
        return ModelFileError(self.path, f"{self._part}{shown(key)}", expected, text)

    def _given(self, key: str, default: Any) -> Any:
        value = self.take(key)
        return default if value is None else value

    def _given_or_default(self, key: str, default: object) -> bool:
        self._taken.add(key)
        return self._values.get(key, default) is not None
