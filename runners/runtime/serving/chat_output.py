"""From the text of a chat's answer to its parts: thought, content, tool calls. Knows no HTTP and no tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runners.runtime.serving.reasoning import ReasoningSplitter
from runners.runtime.serving.tool_calls.call import Parsed, ToolCall, ToolParser


@dataclass(frozen=True, slots=True)
class Part:
    """What a piece of text turned out to be. `calls` are (index in the answer, call)."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[int, ToolCall], ...] = ()


class ChatOutput:
    """One answer. Space before a call, and between calls, belongs to the format and is dropped. Without
    `parallel` the first call is the only one: later ones are dropped."""

    def __init__(self, splitter: ReasoningSplitter | None, parser: ToolParser | None, *, parallel: bool = True) -> None:
        self._splitter = splitter
        self._parser = parser
        self._parallel = parallel
        self._space = ""
        self._after_call = False
        self.num_calls = 0
        self.num_reasoning_tokens = 0

    def push(self, text: str, num_tokens: int = 1) -> Part:
        """The text of a token, which may be empty where a stop string may begin in it; `num_tokens` 0 for text that was
        held back so far."""
        if self._splitter is None:
            return self._parse("", text)
        was_thinking = self._splitter.thinking
        reasoning, answer = self._splitter.push(text)
        if was_thinking or self._splitter.thinking:
            self.num_reasoning_tokens += num_tokens
        return self._parse(reasoning, answer)

    def finish(self) -> Part:
        reasoning, answer = self._splitter.finish() if self._splitter else ("", "")
        part = self._parse(reasoning, answer)
        if self._parser is None:
            return part
        last = self._take(self._parser.finish())
        return Part(part.text + last.text + self._space, reasoning, part.calls + last.calls)

    def _parse(self, reasoning: str, answer: str) -> Part:
        if self._parser is None:
            return Part(answer, reasoning)
        part = self._take(self._parser.push(answer))
        return Part(part.text, reasoning, part.calls)

    def _take(self, parsed: Iterable[Parsed]) -> Part:
        texts: list[str] = []
        calls: list[tuple[int, ToolCall]] = []
        for piece in parsed:
            texts.append(self._without_outer_space(piece.text))
            if piece.calls:
                self._space, self._after_call = "", True
            for call in piece.calls if self._parallel else piece.calls[: 1 - min(self.num_calls, 1)]:
                calls.append((self.num_calls, call))
                self.num_calls += 1
        return Part("".join(texts), "", tuple(calls))

    def _without_outer_space(self, text: str) -> str:
        """Holds back the space at the end of a text until more text follows."""
        if self._after_call:
            text = text.lstrip()
            self._after_call = not text
        text = self._space + text
        bare = text.rstrip()
        self._space = text[len(bare) :]
        return bare
