"""Calls drawn under the schema of `protocol.tools.forced_structure`: the whole output is JSON.

An output that its length cut off is no call; it stays text.
"""

from __future__ import annotations

from collections.abc import Collection

from runners.runtime.serving.tool_calls.call import NotACall, Parsed, ToolCall, call_of, load_json, new_call


class ForcedCalls:
    """`name` for a named tool, whose arguments are all of the output."""

    def __init__(self, names: Collection[str], name: str = "") -> None:
        self._names = names
        self._name = name
        self._held: list[str] = []

    def push(self, text: str) -> list[Parsed]:
        self._held.append(text)
        return []

    def finish(self) -> list[Parsed]:
        text = "".join(self._held)
        self._held.clear()
        try:
            return [Parsed(calls=self._read(load_json(text)))]
        except NotACall:
            return [Parsed(text)]

    def _read(self, value: object) -> tuple[ToolCall, ...]:
        if self._name:
            return (new_call(self._name, value, self._names),)
        if not isinstance(value, list):
            raise NotACall("expected a list of calls")
        return tuple(call_of(item, self._names) for item in value)
