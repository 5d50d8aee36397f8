"""Shapes of published models, by name: the records of catalog.toml, each checked when it is read."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runners.shapes.record import ShapeRecord

CATALOG = Path(__file__).parent / "catalog.toml"


class ShapeCatalogError(Exception):
    """The file of shapes is wrong: which shape, which field, and what is wrong with it."""


class UnknownShape(LookupError):
    """No shape of that name; trying again would change nothing."""

    retry = False

    def __init__(self, name: str, allowed: list[str]) -> None:
        super().__init__(f"no model shape {name!r}; allowed: {', '.join(allowed)}")
        self.allowed = allowed


def get(name: str) -> ShapeRecord:
    """Raises UnknownShape."""
    found = _shipped().get(name)
    if found is None:
        raise UnknownShape(name, names())
    return found


def names() -> list[str]:
    return sorted(_shipped())


def load_shapes(path: Path = CATALOG) -> dict[str, ShapeRecord]:
    """Raises ShapeCatalogError."""
    try:
        data: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ShapeCatalogError(f"{path.name}: is not TOML: {error}") from error
    return {name: _read(path, name, values) for name, values in data.items()}


@cache
def _shipped() -> dict[str, ShapeRecord]:
    return load_shapes()


def _read(path: Path, name: str, values: dict[str, Any]) -> ShapeRecord:
    try:
        return ShapeRecord.model_validate({"name": name, **values})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or str(first.get("ctx", {}).get("field", ""))
        raise ShapeCatalogError(f"{path.name}: {name}.{field}: {first['msg']}") from error
