"""From the bytes of a request to a checked body: JSON, Unicode, depth, then the fields of one endpoint.

Every refusal is an ApiError 400 that names the field by its dotted path, and says what is allowed. It knows no
endpoint's fields.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from runners.runtime.serving.errors import ApiError, bad_field, not_yet_supported

INT64_MAX = 2**63 - 1
MAX_DEPTH = 64
MAX_UNKNOWN_SAID = 1000

# Fields that never change the tokens: ignored without a word.
HARMLESS = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "parallel_tool_calls",
        "safety_identifier",
        "prompt_cache_key",
        "request_id",
        "guided_decoding_backend",
    }
)
SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")

log = logging.getLogger(__name__)
_warned: set[str] = set()


class RequestBody(BaseModel):
    """The base of all bodies. `REFUSED` names fields that the endpoint does not have, with the values that ask for
    nothing and are let through. `FLAT` names fields that may be long and whose own check allows no depth."""

    model_config = ConfigDict(strict=True, extra="allow")
    REFUSED: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    FLAT: ClassVar[frozenset[str]] = frozenset()

    def check(self) -> None:
        """The rules that tie fields together. Raises ApiError 400."""


Body = TypeVar("Body", bound=RequestBody)


def parse(kind: type[Body], raw: bytes) -> Body:
    """The body as `kind`. Raises ApiError 400 that names the field, and what is allowed."""
    fields = read_json(raw)
    _check_unicode(fields, raw)
    _check_depth({name: value for name, value in fields.items() if name not in kind.FLAT})
    for name, inert in kind.REFUSED.items():
        if name in fields and not any(_same(fields[name], value) for value in inert):
            raise not_yet_supported(name, fields[name], " or ".join(json.dumps(value) for value in (*inert, None)))
    try:
        body = kind.model_validate(fields)
    except ValidationError as error:
        raise _first_error(error) from error
    body.check()
    _warn_of_unknown(body)
    return body


def read_json(raw: bytes) -> dict[str, Any]:
    """The body as an object, with nulls dropped. Raises ApiError 400."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON in UTF-8: {error}", code="invalid_json") from error
    if not isinstance(value, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    return {key: item for key, item in value.items() if item is not None}


def _same(given: object, inert: object) -> bool:
    """Equal, with 1 and 1.0 alike but `true` never a 1."""
    return isinstance(given, bool) == isinstance(inert, bool) and given == inert


def _first_error(error: ValidationError) -> ApiError:
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return bad_field(param, "is required", code="missing_required_parameter")
    message = first["msg"].removeprefix("Value error, ")
    return bad_field(param, f"{message} (got {repr(first['input'])[:80]})", code="invalid_value")


def _check_unicode(fields: dict[str, Any], raw: bytes) -> None:
    """JSON can spell lone surrogates; no tokenizer and no answer can. Nearly all bodies escape none, so that the walk
    is rarely taken."""
    if SURROGATE_ESCAPE.search(raw) is None:
        return
    for path, text in _texts(fields):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise bad_field(path, f"holds text that is not Unicode: {error.reason}", code="invalid_value") from error


def _texts(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(path, text) of every string, a key's path being that of its object. Without recursion, as depth is unchecked."""
    left: list[tuple[str, Any]] = [("", fields)]
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list):
            left += [(f"{path}.{i}", item) for i, item in enumerate(value) if isinstance(item, str | list | dict)]
        elif isinstance(value, dict):
            for key, item in value.items():
                yield path or "body", key
                left.append((f"{path}.{key}" if path else key, item))


def _check_depth(fields: dict[str, Any]) -> None:
    """What is passed on to templates and schemas is walked by recursion there."""
    for name, value in fields.items():
        level = [value] if isinstance(value, dict | list) else []
        for _ in range(MAX_DEPTH):
            inner = (item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer))
            level = [item for item in inner if isinstance(item, dict | list)]
            if not level:
                break
        else:
            raise bad_field(
                name[:80], f"is nested deeper than the {MAX_DEPTH} levels that are allowed", code="invalid_value"
            )


def _warn_of_unknown(body: RequestBody) -> None:
    unknown = set(body.model_extra or ()) - HARMLESS - body.REFUSED.keys() - _warned
    for name in sorted(unknown)[: MAX_UNKNOWN_SAID - len(_warned)]:
        _warned.add(name)
        log.warning("the field %r of a request is unknown here and is ignored (said once)", name[:80])
