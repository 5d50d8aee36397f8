"""Calls between tags, as Hermes and Qwen write them: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

from __future__ import annotations

from collections.abc import Collection

from runners.runtime.serving.markers import split_at
from runners.runtime.serving.tool_calls.call import NotACall, Parsed, call_of, load_json

START, END = "<tool_call>", "</tool_call>"


class TaggedCalls:
    """A call that the output ends in the midst of is one all the same if its JSON is whole."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._held = ""
        self._inside = False

    def push(self, text: str) -> list[Parsed]:
        self._held += text
        parsed: list[Parsed] = []
        while True:
            if not self._inside:
                certain, self._held, self._inside = split_at(self._held, START)
                parsed.append(Parsed(certain))
            if not self._inside or END not in self._held:
                return parsed
            body, self._held = self._held.split(END, 1)
            self._inside = False
            parsed.append(self._read(body, END))

    def finish(self) -> list[Parsed]:
        rest, self._held = self._held, ""
        return [self._read(rest, "") if self._inside else Parsed(rest)]

    def _read(self, body: str, end: str) -> Parsed:
        try:
            return Parsed(calls=(call_of(load_json(body), self._names),))
        except NotACall:
            return Parsed(START + body + end)
