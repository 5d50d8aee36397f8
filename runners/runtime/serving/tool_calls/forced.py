"""Calls drawn under the schema of `protocol.tools.forced_structure`: the whole output is JSON.

What the length of an output cut off is no call; it stays text.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from runners.runtime.serving.tool_calls.call import NotACall, Parsed, call_of, load_json, new_call


class NamedCall:
    """The output is the arguments of one tool."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._held: list[str] = []

    def push(self, text: str) -> list[Parsed]:
        self._held.append(text)
        return []

    def finish(self) -> list[Parsed]:
        text = "".join(self._held)
        self._held.clear()
        try:
            return [Parsed(calls=(new_call(self._name, load_json(text), (self._name,)),))]
        except NotACall:
            return [Parsed(text)]


class ListedCalls:
    """The output is a list of calls. Each comes as soon as it is complete."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._held = ""
        self._begun = False
        self._decoder = json.JSONDecoder()

    def push(self, text: str) -> list[Parsed]:
        self._held += text
        parsed: list[Parsed] = []
        while "}" in text and (call := self._next()) is not None:
            parsed.append(call)
        return parsed

    def finish(self) -> list[Parsed]:
        rest, self._held = self._held.strip(), ""
        if self._begun:
            rest = rest.lstrip(", \t\r\n")
        return [] if rest == "]" else [Parsed(rest)]

    def _next(self) -> Parsed | None:
        """The call that the text held back begins with; null while it is not whole."""
        start = self._held.lstrip("[, \t\r\n")
        try:
            _, end = self._decoder.raw_decode(start)
            call = call_of(load_json(start[:end]), self._names)
        except (ValueError, RecursionError):
            return None
        self._held, self._begun = start[end:], True
        return Parsed(calls=(call,))
