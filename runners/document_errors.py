"""How a fault in a document is told: its field, the value found, and what is allowed there.

Turns pydantic's errors into that form. Knows which parts of the published document are for a later version, so that
they are refused by name and never taken for a mistake or ignored.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from runners.spec import ExperimentSpec

# Values that a later version will take: path → what is refused as "not yet supported" ("*": whatever isn't allowed).
LATER_VALUES: dict[str, tuple[str, ...]] = {
    "engine.kernels": ("native",),
    "engine.weights": ("fp16", "w4a16", "q4_0", "q4_1", "q8_0"),
    "engine.activations": ("int16",),
    "engine.kv_cache": ("int8", "int4", "fp16"),
    "engine.scheduler.policy": ("slo", "sjf", "edf"),
    "engine.scheduler.itl_target_s": ("*",),
}
TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "dict": "a mapping",
    "model": "a mapping",
    "model_attributes": "a mapping",
    "tuple": "a list",
    "list": "a list",
    "none": "null, or leave it out",
}
SHAPE_KINDS = ("_type", "_parsing", "too_short", "literal_error")
# Faults of a value that is of the right type.
VALUE_KINDS = ("pattern_mismatch", "too_short", "too_long", "_than", "_than_equal")
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with a document. `allowed` says what would have been taken, where that can be said."""

    field: str
    message: str
    allowed: Any = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class SpecError(ValueError):
    """The document is refused whole; `errors` has every fault found. A retry of the same text makes no sense."""

    def __init__(self, errors: list[FieldError]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{error.field or 'document'}: {error.message}" for error in errors))


class TextError(SpecError):
    """The text is not a document at all: no YAML, no JSON."""


@dataclass(frozen=True)
class Found:
    """A fault with pydantic's name for its kind, by which the matrix tells a bad value from a bad combination."""

    kind: str
    error: FieldError


def find_errors(error: ValidationError, document: Mapping[str, Any]) -> list[Found]:
    """pydantic's errors with dotted paths into the document, and with what is allowed there."""
    return [_found(item, document) for item in error.errors(include_url=False)]


def merge_errors(found: list[Found]) -> list[FieldError]:
    """One error per field: where the members of a union each complained, what they allow is joined, and a member that
    is of another shape or type altogether is not heard."""
    fields = {one.error.field for one in found}
    judged = {one.error.field for one in found if one.kind.endswith(VALUE_KINDS)}
    by_field: dict[str, list[FieldError]] = {}
    for one in found:
        if one.kind.endswith(SHAPE_KINDS) and any(field.startswith(f"{one.error.field}.") for field in fields):
            continue
        if one.kind.endswith("_type") and one.error.field in judged:
            continue
        fellows = by_field.setdefault(one.error.field, [])
        if one.error not in fellows:
            fellows.append(one.error)
    return [_joined(field, errors) for field, errors in by_field.items()]


def _joined(field: str, errors: list[FieldError]) -> FieldError:
    later = [error for error in errors if "not yet supported" in error.message]
    if later or len(errors) == 1:
        return (later or errors)[0]
    allowed = [value for error in errors for value in _as_list(error.allowed)]
    return FieldError(field, ", or ".join(dict.fromkeys(error.message for error in errors)), allowed or None)


def _as_list(allowed: Any) -> list[Any]:
    if allowed is None:
        return []
    return allowed if isinstance(allowed, list) else [allowed]


def _found(item: Any, document: Mapping[str, Any]) -> Found:
    kind, value, context = item["type"], item.get("input"), item.get("ctx", {})
    path = _path(item["loc"], document, missing=kind in ("missing", "union_tag_not_found"))
    if "field" in context:
        path = f"{path}.{context['field']}".strip(".")
    if kind == "union_tag_invalid":
        # The tag is reported at the union itself, with the whole mapping as the value.
        path, value = f"{path}.{context['discriminator'].strip(chr(39))}", context["tag"]
    return Found(kind, _field_error(kind, path, value, item, context))


def _field_error(kind: str, path: str, value: Any, item: Any, context: Mapping[str, Any]) -> FieldError:
    if kind == "extra_forbidden":
        return FieldError(path, "unknown key", known_keys(item["loc"]))
    allowed = _allowed(kind, context)
    if _is_for_later(path, value):
        return FieldError(path, f"{_shown(value)} is not yet supported", allowed)
    if kind == "missing":
        return FieldError(path, "this key is required")
    if kind == "union_tag_not_found":
        return FieldError(f"{path}.{context['discriminator'].strip(chr(39))}", "this key is required")
    if "field" in context:
        return FieldError(path, item["msg"], allowed)
    if allowed is not None:
        return FieldError(path, f"{_shown(value)} is not allowed", allowed)
    return FieldError(path, f"{_shown(value)} is refused: {item['msg']}")


def _is_for_later(path: str, value: Any) -> bool:
    words = LATER_VALUES.get(path, ())
    if "*" in words:
        return True
    parts = [*value, *value.values()] if isinstance(value, Mapping) else [value]
    return any(isinstance(part, str) and part in words for part in parts)


def _allowed(kind: str, context: Mapping[str, Any]) -> Any:
    if "allowed" in context:
        return context["allowed"]
    if "expected" in context or "expected_tags" in context:
        return _choices(str(context.get("expected", context.get("expected_tags"))))
    for bound, words in BOUNDS.items():
        if bound in context:
            return f"{words} {context[bound]:g}" if isinstance(context[bound], float) else f"{words} {context[bound]}"
    for bound, words in (("max_length", "at most"), ("min_length", "at least")):
        if bound in context:
            thing = "character" if kind.startswith("string") else "value"
            return f"{words} {context[bound]} {thing}{'s' * (context[bound] != 1)}"
    if "pattern" in context:
        return f"text that matches {context['pattern']}"
    return TYPE_NAMES.get(re.sub(r"_(type|parsing|from_float|required)$", "", kind))


def _choices(text: str) -> list[Any]:
    """pydantic's `'a', 'b' or 'c'` as a list."""
    return [ast.literal_eval(word) for word in re.findall(r"'[^']*'|[^\s,']+", text) if word != "or"]


def known_keys(loc: tuple[int | str, ...]) -> list[str]:
    """The keys that the mapping at `loc[:-1]` may have."""
    here: list[type[BaseModel]] = [ExperimentSpec]
    for part in loc[:-1]:
        inner = [model for one in here if part in one.model_fields for model in _models_in(one, str(part))]
        # A part that is no field is the tag of a union's member, or its name.
        here = inner or [one for one in here if part in _tags(one) or part == one.__name__]
    return sorted({name for one in here for name in one.model_fields})


def _models_in(model: type[BaseModel], field: str) -> list[type[BaseModel]]:
    return list(_models(model.model_fields[field].annotation))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _tags(model: type[BaseModel]) -> set[Any]:
    return {tag for field in model.model_fields.values() for tag in get_args(field.annotation)}


def _path(loc: tuple[int | str, ...], document: Any, missing: bool) -> str:
    """The dotted path of an error. Parts of `loc` that name a union's member are not in the document and left out."""
    parts: list[str] = []
    here = document
    for position, part in enumerate(loc):
        if isinstance(here, Mapping) and part in here:
            parts.append(str(part))
            here = here[str(part)]
        elif isinstance(here, list | tuple) and isinstance(part, int) and part < len(here):
            parts.append(str(part))
            here = here[part]
        elif missing and position == len(loc) - 1:
            parts.append(str(part))
    return ".".join(parts)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "…"
