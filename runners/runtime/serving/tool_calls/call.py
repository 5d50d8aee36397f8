"""A call of a tool, read from a model's JSON; and what a parser gives."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is the text of a JSON object. The id has nine letters and digits, as Mistral's templates want it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """Text that is certain by now, then the calls that follow it."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class ToolParser(Protocol):
    """Text in, in any pieces; text and calls out, in order."""

    def push(self, text: str) -> list[Parsed]: ...

    def finish(self) -> list[Parsed]: ...


class NotACall(ValueError):
    """Text that is no call of a tool that was offered."""


def load_json(text: str) -> Any:
    """Raises NotACall for what is no JSON, NaN and Infinity included."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise NotACall(str(error)) from error


def call_of(value: Any, names: Collection[str]) -> ToolCall:
    """A call from {"name": …, "arguments" or "parameters": {…}}. Raises NotACall for anything else, and for a name that
    is not among `names`."""
    if not isinstance(value, dict):
        raise NotACall(f"expected an object, found {type(value).__name__}")
    return new_call(value.get("name"), value.get("arguments", value.get("parameters", {})), names)


def new_call(name: Any, arguments: Any, names: Collection[str]) -> ToolCall:
    """Raises NotACall."""
    if not isinstance(name, str) or name not in names:
        raise NotACall(f"no tool is called {name!r}")
    if isinstance(arguments, str):
        arguments = load_json(arguments)
    if not isinstance(arguments, dict):
        raise NotACall(f"expected the arguments of {name} as an object")
    return ToolCall(secrets.token_hex(5)[:9], name, json.dumps(arguments, ensure_ascii=False))


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
