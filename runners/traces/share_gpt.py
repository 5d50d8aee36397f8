"""Conversations in ShareGPT's form, `{"id", "conversations": [{"from", "value"}]}`: each answer becomes a row.

A prompt holds all that was said before, so the prompts of a conversation begin alike. There are no times. Lengths are
those of a tokenizer where one is at hand, else four characters are taken for a token. The texts are not kept.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from runners.traces import values
from runners.traces.lines import MAX_LINE_BYTES, as_text
from runners.traces.rows import MAX_SESSION, BadLine, LineFault, TraceRow

CHARACTERS_A_TOKEN = 4
CHUNK_BYTES = 1024 * 1024
ASKS = frozenset({"human", "user", "system", "tool"})
ANSWERS = frozenset({"gpt", "chatgpt", "assistant", "bing", "bard", "model"})
BLANKS = re.compile(r"[ \t\r\n]*")

CountTokens = Callable[[str], int]


def count_roughly(text: str) -> int:
    return -(-len(text) // CHARACTERS_A_TOKEN)


class ShareGptRows:
    """The rows of conversations, given one by one. A conversation without an answer gives none."""

    def __init__(self, count_tokens: CountTokens = count_roughly) -> None:
        self._count = count_tokens

    def take(self, number: int, line: bytes) -> list[TraceRow]:
        return self.rows_of(number, values.read_object(as_text(line)))

    def rows_of(self, number: int, found: dict[str, Any]) -> list[TraceRow]:
        """`number` names a conversation without an id. Raises LineFault."""
        said = found.get("conversations", found.get("conversation"))
        if not isinstance(said, list):
            raise LineFault(f"conversations: {values.shown(said)}; allowed: a list of {{from, value}}")
        session = values.label(found.get("id", number), "id", MAX_SESSION)
        rows: list[TraceRow] = []
        before = 0
        for place, one in enumerate(said):
            speaker, length = self._said(one, place)
            if speaker in ANSWERS and before and length:
                input_tokens = values.tokens(before, f"conversations.{place}")
                output_tokens = values.tokens(length, f"conversations.{place}")
                rows.append(TraceRow(0.0, input_tokens, output_tokens, session=session, turn=len(rows) + 1))
            before += length
        return rows

    def _said(self, one: Any, place: int) -> tuple[str, int]:
        where = f"conversations.{place}"
        if not isinstance(one, dict):
            raise LineFault(f"{where}: {values.shown(one)}; allowed: a mapping with from and value")
        speaker, value = one.get("from", one.get("role")), one.get("value", one.get("content"))
        if speaker not in ASKS | ANSWERS:
            raise LineFault(f"{where}.from: {values.shown(speaker)}; allowed: {', '.join(sorted(ASKS | ANSWERS))}")
        if not isinstance(value, str):
            raise LineFault(f"{where}.value: {values.shown(value)}; allowed: text")
        return speaker, self._count(value)


def read_array(stream: BinaryIO, rows: ShareGptRows) -> Iterator[TraceRow | BadLine]:
    """The rows of each element of one JSON array; little more than an element is held at a time.

    After what is no JSON nothing more can be read: that is the last BadLine.
    """
    text = _ArrayText(stream)
    try:
        for line, element in text.elements():
            try:
                if not isinstance(element, dict):
                    raise LineFault(f"{values.shown(element)} is no JSON object")
                yield from rows.rows_of(text.count, element)
            except LineFault as fault:
                yield BadLine(line, str(fault))
    except LineFault as fault:
        yield BadLine(text.line, f"{fault}; nothing after it was read")


class _ArrayText:
    """A window on the text of a JSON array, from which elements are taken."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._at = "", 0
        self.line = 1
        self.count = 0

    def elements(self) -> Iterator[tuple[int, Any]]:
        """Each with the line where it begins. Raises LineFault at what is no JSON array."""
        if self._next_sign() != "[":
            raise LineFault("no JSON array: it begins with no [")
        self._pass(1)
        if self._next_sign() == "]":
            return
        while True:
            self._next_sign()
            line, element = self.line, self._take_element()
            self.count += 1
            yield line, element
            sign = self._next_sign()
            if sign == "]":
                return
            if sign != ",":
                raise LineFault(f"{values.shown(sign)}; allowed: a comma, or the array's end" if sign else "cut short")
            self._pass(1)

    def _take_element(self) -> Any:
        while True:
            try:
                element, end = self._scan(self._text, self._at)
            except RecursionError as error:
                raise LineFault("nested too deep") from error
            except ValueError as error:
                if len(self._text) - self._at > MAX_LINE_BYTES:
                    raise LineFault(f"no JSON, or longer than {MAX_LINE_BYTES} characters") from error
                if not self._read_more():
                    raise LineFault("no JSON, or cut short") from error
                continue
            self._pass(end - self._at)
            return element

    def _next_sign(self) -> str:
        """The next sign that is no blank, left where it is; nothing at the end."""
        while True:
            blank = BLANKS.match(self._text, self._at)
            assert blank is not None, "it matches nothing too"
            self._pass(blank.end() - self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    def _pass(self, count: int) -> None:
        self.line += self._text.count("\n", self._at, self._at + count)
        self._at += count

    def _read_more(self) -> bool:
        chunk = self._stream.read(CHUNK_BYTES)
        try:
            more = self._decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise LineFault("no UTF-8 text") from error
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(chunk)
