"""From text to an ExperimentSpec, or to a list of errors that name field, value and what is allowed.

Reads YAML (plain data: no tags, anchors or aliases) and JSON, within limits on size and depth. How a fault is worded
is in `runners.document_errors`; a matrix is expanded in `runners.matrix`. Checks no stored state.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from runners.document_errors import FieldError, Found, SpecError, TextError, find_errors, merge_errors
from runners.spec import ExperimentSpec

__all__ = [
    "MAX_BYTES", "MAX_DEPTH", "MAX_VALUES", "FieldError", "SpecError", "TextError",
    "check_limits", "document_errors", "parse_json", "parse_text", "validate_document",
]  # fmt: skip

MAX_BYTES = 64 * 1024
MAX_DEPTH = 12
MAX_VALUES = 5_000
LARGEST_INT = 2**63
TOO_DEEP = FieldError("", "the document is nested too deep", f"at most {MAX_DEPTH} levels")
# PostgreSQL's JSON takes neither.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class _NotPlain(yaml.MarkedYAMLError):
    """Well-formed YAML that says more than plain data may."""

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(problem=problem, problem_mark=mark)


class _PlainLoader(yaml.SafeLoader):
    """YAML 1.2's core schema, which is what JSON could hold: dates stay text, `on` and `yes` stay words.

    Without aliases (a small text could stand for a huge document), tags, and repeated keys.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}
    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if self.check_event(yaml.events.AliasEvent):
            raise _NotPlain("aliases are not allowed", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _NotPlain(f"tags are not allowed ({event.tag})", event.start_mark)
        if self._depth > MAX_DEPTH:
            raise _NotPlain(TOO_DEEP.message, event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _NotPlain(f"key {key!r} is not text", key_node.start_mark)
            if key in seen:
                raise _NotPlain(f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
):
    _PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))
_PlainLoader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value, 10))
_PlainLoader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))


def parse_text(text: str) -> dict[str, Any]:
    """A YAML text (JSON is YAML) as a mapping. Raises SpecError when it is too large, too deep, or not plain data,
    TextError when it is no YAML at all."""
    _check_size(text)
    try:
        document = yaml.load(text, Loader=_PlainLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        kind = SpecError if isinstance(error, _NotPlain) else TextError
        raise kind([FieldError("", f"{where}{error.problem or 'not valid YAML'}")]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise TextError([FieldError("", f"not valid YAML: {_first_line(error)}")]) from error
    except RecursionError as error:
        raise SpecError([TOO_DEEP]) from error
    return _mapping(document)


def parse_json(text: str) -> dict[str, Any]:
    """A JSON text as a mapping. Raises as parse_text does; repeated keys, NaN and Infinity are refused."""
    _check_size(text)
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise TextError([FieldError("", f"not valid JSON: {where}: {error.msg}")]) from error
    except ValueError as error:
        raise TextError([FieldError("", f"not valid JSON: {_first_line(error)}")]) from error
    except RecursionError as error:
        raise SpecError([TOO_DEEP]) from error
    return _mapping(document)


def _check_size(text: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SpecError([FieldError("", "the document is too large", f"at most {MAX_BYTES} bytes")])


def _mapping(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise SpecError([FieldError("", "the document must be a mapping of keys to values")])
    return document


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    repeated = next((key for key in keys if keys.count(key) > 1), None) if len(set(keys)) < len(keys) else None
    if repeated is not None:
        raise ValueError(f"key {repeated!r} is given twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def check_limits(document: Mapping[str, Any]) -> None:
    """Raises SpecError when a parsed document is deeper or larger than any sensible one, or holds what JSON can't."""
    level: list[tuple[str, Any]] = [("", document)]
    values = 0
    for _ in range(MAX_DEPTH):
        values += len(level)
        if values > MAX_VALUES:
            raise SpecError([FieldError("", "the document holds too many values", f"at most {MAX_VALUES} values")])
        level = [child for path, value in level for child in _children(path, value)]
        if not level:
            break
    else:
        raise SpecError([TOO_DEEP])
    if len(json.dumps(document)) > MAX_BYTES:
        raise SpecError([FieldError("", "the document is too large", f"at most {MAX_BYTES} bytes")])


def _children(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key in value:
            _check_plain(path, key if isinstance(key, str) else object())
        return [(f"{path}.{key}".lstrip("."), child) for key, child in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{path}.{place}", child) for place, child in enumerate(value)]
    _check_plain(path, value)
    return []


def _check_plain(path: str, value: Any) -> None:
    """Raises SpecError for a value that neither JSON nor the database could hold as it is."""
    if isinstance(value, str):
        if UNSTORABLE.search(value):
            raise SpecError([FieldError(path.encode("ascii", "replace").decode(), "text with a NUL or a surrogate")])
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise SpecError([FieldError(path, "not a finite number")])
    elif isinstance(value, int):
        if not -LARGEST_INT <= value < LARGEST_INT:
            raise SpecError([FieldError(path, "a whole number too large", "at most 64 bits")])
    elif value is not None:
        raise SpecError([FieldError(path, f"{type(value).__name__} is neither text, number, list nor mapping")])


def document_errors(document: Mapping[str, Any]) -> tuple[ExperimentSpec | None, list[Found]]:
    """The typed document, or every fault that the types can see. Raises SpecError past the limits.

    Types are strict: a number in quotes is text, and true is not 1.
    """
    check_limits(document)
    try:
        return ExperimentSpec.model_validate_json(json.dumps(document), strict=True), []
    except ValidationError as error:
        return None, find_errors(error, document)


def validate_document(document: Mapping[str, Any]) -> ExperimentSpec:
    """The typed document. Raises SpecError with every fault that the types can see."""
    spec, errors = document_errors(document)
    if spec is None:
        raise SpecError(merge_errors(errors))
    return spec
