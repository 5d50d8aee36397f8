"""What an output must match, in OpenAI's words (`response_format`) and in vLLM's (`structured_outputs`, `guided_…`).

A grammar is Lark as llguidance reads it. Whether a schema, an expression or a grammar can be compiled is for the
engine to say, at admission.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from runners.runtime.sequence import Structure, StructureKind
from runners.runtime.serving.protocol.fields import strings_of

MAX_CHOICES, MAX_CHOICE_CHARS = 1024, 10_000
KINDS: Mapping[str, StructureKind] = {
    "json": "json_schema",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
    "json_object": "json_object",
}


def structure_of(kind: str, value: object) -> Structure | None:
    """A structure by vLLM's name for its kind; null for a `json_object` that is false. Raises ValueError."""
    if kind not in KINDS:
        raise ValueError(f"{kind[:80]!r} is not supported; allowed: one of {', '.join(KINDS)}")
    return Structure(KINDS[kind], text) if (text := _TEXT_OF[kind](value)) is not None else None


def _schema_text(value: object) -> str:
    schema = value
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"must be a JSON schema, and is no JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ValueError("must be a JSON schema: an object, or its text")
    return json.dumps(schema, ensure_ascii=False)


def _plain_text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a string of at least one character")
    return value


def _choice_text(value: object) -> str:
    choices = strings_of(value, MAX_CHOICES, MAX_CHOICE_CHARS)
    if not choices:
        raise ValueError("must hold at least one choice")
    return json.dumps(choices, ensure_ascii=False)


def _object_text(value: object) -> str | None:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return "" if value else None


_TEXT_OF = {
    "json": _schema_text,
    "regex": _plain_text,
    "choice": _choice_text,
    "grammar": _plain_text,
    "json_object": _object_text,
}


def _response_format(value: object) -> Structure | None:
    if not isinstance(value, dict):
        raise ValueError('must be an object such as {"type": "json_object"}')
    match value.get("type"):
        case "text":
            return None
        case "json_object":
            return Structure("json_object")
        case "json_schema":
            described = value.get("json_schema")
            if not isinstance(described, dict) or not isinstance(described.get("schema"), dict):
                raise ValueError('must hold {"json_schema": {"name": …, "schema": {…}}} for this type')
            return Structure("json_schema", _schema_text(described["schema"]))
        case other:
            raise ValueError(f"type {repr(other)[:80]} is not supported; allowed: text, json_object, json_schema")


def _structured_outputs(value: object) -> Structure | None:
    if not isinstance(value, dict):
        raise ValueError(f"must be an object with one of {', '.join(KINDS)}")
    given = {key: item for key, item in value.items() if item is not None}
    if len(given) != 1:
        raise ValueError(f"must hold exactly one of {', '.join(KINDS)}; it holds {len(given)} fields")
    ((kind, item),) = given.items()
    return structure_of(kind, item)


def _guided(kind: str) -> Any:
    return BeforeValidator(lambda value: structure_of(kind, value))


ResponseFormat = Annotated[Structure | None, BeforeValidator(_response_format)]
StructuredOutputs = Annotated[Structure | None, BeforeValidator(_structured_outputs)]
GuidedJson = Annotated[Structure | None, _guided("json")]
GuidedRegex = Annotated[Structure | None, _guided("regex")]
GuidedChoice = Annotated[Structure | None, _guided("choice")]
GuidedGrammar = Annotated[Structure | None, _guided("grammar")]
GuidedJsonObject = Annotated[Structure | None, _guided("json_object")]
