"""Splits what a model thinks (`<think>…</think>`, as Qwen3, SmolLM3 and DeepSeek-R1 write it) from its answer.

Only a thought at the start of an output counts; the marks stay out, and so do the newlines around them. The pieces in
which text arrives never change the result.
"""

from __future__ import annotations

from enum import Enum

from runners.runtime.serving.markers import split_at

START, END = "<think>", "</think>"


class _State(Enum):
    BEFORE = "before"
    THINKING = "thinking"
    ANSWERING = "answering"


class ReasoningSplitter:
    """BEFORE → THINKING → ANSWERING, or BEFORE → ANSWERING where the output does not begin with `<think>`.

    `opened`: the prompt has opened the thought already, so that only its end will come.
    """

    def __init__(self, *, opened: bool) -> None:
        self._opened = opened
        self._state = _State.BEFORE
        self._held = ""
        self._at_start = False

    @property
    def thinking(self) -> bool:
        return self._state is _State.THINKING

    def push(self, text: str) -> tuple[str, str]:
        """(thought, answer) that are certain by now."""
        self._held += text
        thought = answer = ""
        if self._state is _State.BEFORE:
            self._begin()
        if self._state is _State.THINKING:
            thought = self._think()
        if self._state is _State.ANSWERING:
            answer, self._held = self._after_newlines(self._held), ""
        return thought, answer

    def finish(self) -> tuple[str, str]:
        """The rest, at the end of the output."""
        rest, self._held = self._held, ""
        if self._state is _State.ANSWERING or (self._state is _State.BEFORE and not self._opened):
            return "", rest
        return self._after_newlines(rest).rstrip("\n"), ""

    def _begin(self) -> None:
        text = self._held.lstrip()
        if text.startswith(START):
            self._held = text.removeprefix(START)
            self._state, self._at_start = _State.THINKING, True
        elif not START.startswith(text):
            self._state = _State.THINKING if self._opened else _State.ANSWERING
            self._at_start = self._opened

    def _think(self) -> str:
        thought, rest, ended = split_at(self._held, END)
        if ended:
            self._state = _State.ANSWERING
        else:  # newlines at the end may be those before the mark
            bare = thought.rstrip("\n")
            thought, rest = bare, thought[len(bare) :] + rest
        thought = self._after_newlines(thought)
        if ended:
            thought, self._at_start = thought.rstrip("\n"), True
        self._held = rest
        return thought

    def _after_newlines(self, text: str) -> str:
        """Without the newlines that follow a mark."""
        if self._at_start:
            text = text.lstrip("\n")
            self._at_start = not text
        return text
