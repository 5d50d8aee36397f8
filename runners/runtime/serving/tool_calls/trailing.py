"""Calls that a mark begins and the end of the output ends: Llama 3's JSON and Mistral's `[TOOL_CALLS]`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection

from runners.runtime.serving.markers import split_at
from runners.runtime.serving.tool_calls.call import NotACall, Parsed, ToolCall, call_of, load_json, new_call

PYTHON_TAG, TOOL_CALLS = "<|python_tag|>", "[TOOL_CALLS]"
MISTRAL_CALL = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*(\{.*\})\s*", re.DOTALL)

Read = Callable[[str, Collection[str]], tuple[ToolCall, ...]]


class TrailingCalls:
    """Everything after the mark is held until the end: calls if all of it is, text otherwise. With `bare`, an output
    that begins with it is taken for calls without the mark."""

    def __init__(self, names: Collection[str], mark: str, read: Read, bare: str = "") -> None:
        self._names = names
        self._mark = mark
        self._read = read
        self._bare = bare
        self._held = ""
        self._found = ""  # the mark, where it is what began the calls
        self._inside = False
        self._at_start = bool(bare)

    def push(self, text: str) -> list[Parsed]:
        self._held += text
        if self._inside:
            return []
        if self._at_start:
            start = self._held.lstrip()
            if not start:
                return []
            self._at_start, self._inside = False, start.startswith(self._bare)
            if self._inside:
                return []
        certain, self._held, self._inside = split_at(self._held, self._mark)
        self._found = self._mark if self._inside else ""
        return [Parsed(certain)]

    def finish(self) -> list[Parsed]:
        rest, self._held = self._held, ""
        if not self._inside:
            return [Parsed(rest)]
        try:
            return [Parsed(calls=self._read(rest, self._names))]
        except NotACall:
            return [Parsed(self._found + rest)]


def read_llama3(text: str, names: Collection[str]) -> tuple[ToolCall, ...]:
    """Objects one after the other, between them space or a semicolon. Raises NotACall."""
    decoder, calls, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        try:
            _, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError) as error:
            raise NotACall(str(error)) from error
        calls.append(call_of(load_json(rest[:end]), names))
        rest = rest[end:].lstrip(" \t\r\n;").removeprefix(PYTHON_TAG)
    if not calls:
        raise NotACall("no call follows")
    return tuple(calls)


def read_mistral(text: str, names: Collection[str]) -> tuple[ToolCall, ...]:
    """A list of objects, or in newer models `name[ARGS]{…}`, each after a mark of its own. Raises NotACall."""
    if text.lstrip().startswith("["):
        values = load_json(text)
        if not isinstance(values, list) or not values:
            raise NotACall("expected a list of calls")
        return tuple(call_of(value, names) for value in values)
    calls = []
    for part in text.split(TOOL_CALLS):
        match = MISTRAL_CALL.fullmatch(part)
        if match is None:
            raise NotACall("expected a name and its arguments")
        calls.append(new_call(match[1], load_json(match[2]), names))
    return tuple(calls)
