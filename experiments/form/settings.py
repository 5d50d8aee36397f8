"""The document's settings, read from its types: which choices, bounds and default each dotted path has.

So that a setting that the types gain is on the form without a word here. How settings are shown is not decided here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from runners.matrix import AXIS_ROOTS
from runners.spec import ExperimentSpec

Schema = Mapping[str, Any]
SCALARS = {"string", "integer", "number", "boolean"}


@dataclass(frozen=True)
class Setting:
    """`choices` are all that is allowed, or, where numbers are too, the words; `kinds` are JSON's type names, `most`
    the largest number allowed."""

    path: str
    kinds: frozenset[str]
    choices: tuple[Any, ...] = ()
    default: Any = None
    most: float = math.inf

    @property
    def takes_numbers(self) -> bool:
        return bool(self.kinds & {"integer", "number"})

    @property
    def only_choices(self) -> bool:
        """Nothing but one of the choices is allowed."""
        return bool(self.choices) and not self.kinds

    @property
    def is_fixed(self) -> bool:
        """There is one value only, so there is nothing to set."""
        return self.only_choices and len(self.choices) < 2


@cache
def _schema() -> dict[str, Any]:
    return ExperimentSpec.model_json_schema()


def setting(path: str, document: Mapping[str, Any] | None = None) -> Setting:
    """The setting at a dotted path; where its parent is of several kinds, of the kind that the document has.

    Raises KeyError for a path that the document's types don't have.
    """
    here: Schema = _schema()
    value: Any = document or {}
    for key in path.split("."):
        properties = _properties(here, value)
        here = properties[key]
        value = value.get(key) if isinstance(value, Mapping) else None
    return _describe(path, here)


def default_kind(path: str) -> dict[str, Any] | None:
    """What stands at a path of several kinds where the document leaves it out, its kind named; None at any other."""
    here: Schema = _schema()
    for key in path.split("."):
        here = _properties(here, None).get(key, {})
    default = here.get("default")
    return dict(default) if _discriminator(here) and isinstance(default, dict) else None


def in_order(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its keys in the order of the types. The database keeps none."""
    ordered = _in_order(_schema(), document)
    for key in ("matrix", "baseline"):
        if isinstance(ordered.get(key), Mapping):
            places = {one.path: place for place, one in enumerate(axis_settings(document))}
            ordered[key] = dict(sorted(ordered[key].items(), key=lambda item: places.get(item[0], len(places))))
    return ordered


def _in_order(schema: Schema, value: Mapping[str, Any]) -> dict[str, Any]:
    properties = _properties(schema, value)
    places = {key: place for place, key in enumerate(properties)}
    items = sorted(value.items(), key=lambda item: places.get(item[0], len(places)))
    return {
        key: _in_order(properties[key], item) if isinstance(item, Mapping) and key in properties else item
        for key, item in items
    }


def axis_settings(document: Mapping[str, Any]) -> list[Setting]:
    """Every setting that may be an axis of this document's matrix."""
    return [one for root in AXIS_ROOTS for one in leaves(root, document)]


def leaves(root: str, document: Mapping[str, Any]) -> list[Setting]:
    """The settings at and below a path that hold one value and may have another, in the order of the types."""
    return [one for one in _leaves(root, _schema()["properties"][root], document.get(root)) if not one.is_fixed]


def _leaves(path: str, schema: Schema, value: Any) -> Iterator[Setting]:
    properties = _properties(schema, value) if _holds_keys(schema, value) else {}
    if not properties:
        described = _describe(path, schema)
        if described.kinds & SCALARS or described.choices:
            yield described
        return
    kind = _discriminator(schema)
    for key, child in properties.items():
        if key == kind or child.get("type") in ("array", "null"):
            continue
        yield from _leaves(f"{path}.{key}", child, value.get(key) if isinstance(value, Mapping) else None)


def _holds_keys(schema: Schema, value: Any) -> bool:
    """Whether keys stand below: of a type that may also be left out (null), or be a word, only where the document has
    them."""
    return "anyOf" not in schema or isinstance(value, Mapping)


def _discriminator(schema: Schema) -> str | None:
    found = schema.get("discriminator")
    return str(found["propertyName"]) if found else None


def _properties(schema: Schema, value: Any) -> dict[str, Any]:
    """The keys of a mapping's type; of a type of several kinds those of the value's kind, or of the default's; of one
    that may also be null or a word those that it has as a mapping."""
    schema = next((option for option in schema.get("anyOf", ()) if "$ref" in option), schema)
    if "$ref" in schema:
        schema = _resolve(schema["$ref"])
    kind = _discriminator(schema)
    if kind:
        mapping = schema["discriminator"]["mapping"]
        asked = value.get(kind) if isinstance(value, Mapping) else schema.get("default", {}).get(kind)
        chosen = mapping.get(asked) if isinstance(asked, str) else None
        schema = _resolve(chosen or next(iter(mapping.values())))
    properties: dict[str, Any] = schema.get("properties", {})
    return properties


def _resolve(reference: str) -> Schema:
    found: Schema = _schema()["$defs"][reference.rsplit("/", 1)[-1]]
    return found


def _describe(path: str, schema: Schema) -> Setting:
    kinds: set[str] = set()
    choices: list[Any] = []
    for option in schema.get("anyOf", [schema]):
        if "const" in option:
            choices.append(option["const"])
        elif "enum" in option:
            choices += option["enum"]
        elif option.get("type") == "boolean":
            choices += [True, False]
        elif option.get("type") in SCALARS:
            kinds.add(option["type"])
    most = max((option["maximum"] for option in schema.get("anyOf", [schema]) if "maximum" in option), default=math.inf)
    default = schema.get("default")
    default = None if isinstance(default, list | dict) else default
    return Setting(path, frozenset(kinds), tuple(choices), default, most)
