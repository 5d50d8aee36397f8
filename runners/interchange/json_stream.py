"""A JSON file read in pieces: where the parts of an object or an array lie, and one part at a time as a value.

A part's extent is found by looking for brackets and quotes alone, and only then is it parsed; so a file of any size
needs no more memory than its largest part that is asked for. Offsets are bytes. No line numbers: such files are
mostly one line; errors name the path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from runners.interchange.errors import BadFile
from runners.interchange.texts import check_texts

PIECE_BYTES = 1 << 18
MAX_PART_BYTES = 32 << 20
"""Of one part that is parsed: a request with all its token times is smaller."""
MAX_SCALAR_BYTES = 1 << 16
MAX_DEPTH = 60

_SPACE = re.compile(rb"[ \t\r\n]*")
_MARK = re.compile(rb'["\[\]{}]')
_STRING_END = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STRING_PART = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SCALAR = re.compile(rb"[^ \t\r\n,\]}:]+")


@dataclass(frozen=True)
class Part:
    """A value in the file: `path` for people, its offset, and its first byte, which says what it is."""

    path: str
    offset: int
    kind: str

    @property
    def is_object(self) -> bool:
        return self.kind == "{"

    @property
    def is_array(self) -> bool:
        return self.kind == "["


class JsonFile:
    """`path` must be a file of UTF-8 JSON. Raises BadFile where it is none, when the place is come to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def root(self) -> Part:
        with self._path.open("rb") as file:
            return _Scanner(file, 0).here("")

    def members(self, part: Part) -> dict[str, Part]:
        """The members of an object by name, none of them parsed. Of a name that comes twice the last counts."""
        if not part.is_object:
            raise BadFile(part.path, "is no object")
        found: dict[str, Part] = {}
        with self._path.open("rb") as file:
            scanner = _Scanner(file, part.offset + 1)
            while scanner.more("}", first=not found, where=part.path):
                name = _loads(scanner.take(part.path), part.path)
                if not isinstance(name, str):
                    raise BadFile(part.path, "a member's name is no text")
                scanner.expect(":", part.path)
                member = scanner.here(f"{part.path}.{name}" if part.path else name)
                scanner.skip(member.path)
                found[name] = member
        return found

    def elements(self, part: Part) -> Iterator[Part]:
        """The elements of an array in their order, none of them parsed."""
        for scanner, here in self._walk(part):
            scanner.skip(here.path)
            yield here

    def values(self, part: Part) -> Iterator[Any]:
        """The elements of an array, each parsed."""
        for scanner, here in self._walk(part):
            yield _loads(scanner.take(here.path), here.path)

    def value(self, part: Part) -> Any:
        """The part parsed as a whole."""
        with self._path.open("rb") as file:
            return _loads(_Scanner(file, part.offset).take(part.path), part.path)

    def follows(self, part: Part) -> str:
        """The first character after the part that is no space; nothing at the file's end. Raises BadFile where the part
        does not end."""
        with self._path.open("rb") as file:
            scanner = _Scanner(file, part.offset)
            scanner.skip(part.path)
            return scanner.peek()

    def _walk(self, part: Part) -> Iterator[tuple[_Scanner, Part]]:
        if not part.is_array:
            raise BadFile(part.path, "is no list")
        with self._path.open("rb") as file:
            scanner = _Scanner(file, part.offset + 1)
            number = 0
            while scanner.more("]", first=number == 0, where=part.path):
                yield scanner, scanner.here(f"{part.path}[{number}]")
                number += 1


class _Scanner:
    """A position in the file, moving forward. `_buffer[_at:]` is what comes next."""

    def __init__(self, file: BinaryIO, offset: int) -> None:
        file.seek(offset)
        self._file = file
        self._buffer = b""
        self._start = offset  # of the buffer in the file
        self._at = 0

    def here(self, path: str) -> Part:
        first = self.peek()
        if not first:
            self._cut(path)
        return Part(path, self._start + self._at, first)

    def peek(self) -> str:
        """The next character that is no space; nothing at the end."""
        while True:
            self._at = _end(_SPACE.match(self._buffer, self._at))
            if self._at < len(self._buffer):
                return chr(self._buffer[self._at])
            if not self._fill(keep=False):
                return ""

    def more(self, closing: str, *, first: bool, where: str) -> bool:
        """Whether another part follows in this object or array; moves past the comma, or past the end of it."""
        following = self.peek()
        if following == closing:
            self._at += 1
            return False
        if not first:
            self.expect(",", where)
            if self.peek() == closing:
                raise BadFile(where, f"a comma before {closing}")
        return True

    def expect(self, character: str, where: str) -> None:
        found = self.peek()
        if not found:
            self._cut(where)
        if found != character:
            raise BadFile(where, f"{found!r} where {character!r} should be: this is no JSON")
        self._at += 1

    def take(self, where: str) -> bytes:
        """The bytes of the next value."""
        self.peek()
        self._drop()
        self._pass_value(where, keep=True)
        return self._buffer[: self._at]

    def skip(self, where: str) -> None:
        self.peek()
        self._pass_value(where, keep=False)

    def _pass_value(self, where: str, *, keep: bool) -> None:
        first = self.peek()
        if not first:
            self._cut(where)
        if first == '"':
            self._at += 1
            self._pass_string(where, keep)
        elif first in "[{":
            self._pass_nested(where, keep)
        else:
            self._pass_scalar(where, keep)

    def _pass_nested(self, where: str, keep: bool) -> None:
        depth = 0
        while True:
            mark = _MARK.search(self._buffer, self._at)
            if mark is None:
                self._at = len(self._buffer)
                self._need(where, keep)
                continue
            self._at = mark.end()
            sign = mark.group()
            if sign == b'"':
                self._pass_string(where, keep)
                continue
            depth += 1 if sign in b"[{" else -1
            if depth > MAX_DEPTH:
                raise BadFile(where, f"nested more than {MAX_DEPTH} deep")
            if depth == 0:
                return

    def _pass_string(self, where: str, keep: bool) -> None:
        while (end := _STRING_END.match(self._buffer, self._at)) is None:
            # What can't be the middle of an escape is passed, so that no byte is looked at twice.
            self._at = _end(_STRING_PART.match(self._buffer, self._at))
            self._need(where, keep)
        self._at = end.end()

    def _pass_scalar(self, where: str, keep: bool) -> None:
        while True:
            found = _SCALAR.match(self._buffer, self._at)
            if found is None:
                raise BadFile(where, f"{self.peek()!r} where a value should be: this is no JSON")
            if found.end() < len(self._buffer):
                self._at = found.end()
                return
            if not self._fill(keep):
                self._at = found.end()
                return
            if found.end() - self._at > MAX_SCALAR_BYTES:
                raise BadFile(where, "this is no JSON value")

    def _need(self, where: str, keep: bool) -> None:
        if keep and len(self._buffer) > MAX_PART_BYTES:
            raise BadFile(where, f"is larger than {MAX_PART_BYTES} bytes")
        if not self._fill(keep):
            self._cut(where)

    def _drop(self) -> None:
        self._start += self._at
        self._buffer = self._buffer[self._at :]
        self._at = 0

    def _fill(self, keep: bool) -> bool:
        """Reads on; what lies behind is forgotten unless it is to be kept."""
        piece = self._file.read(PIECE_BYTES)
        if not keep:
            self._drop()
        self._buffer += piece
        return bool(piece)

    def _cut(self, where: str) -> NoReturn:
        raise BadFile(where, "the file ends here, in the middle: it was cut off, or is no JSON")


def _end(match: re.Match[bytes] | None) -> int:
    assert match is not None  # the pattern matches nothing as well
    return match.end()


def _loads(text: bytes, where: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_unmeasured)
    except UnicodeDecodeError as error:
        raise BadFile(where, f"is no UTF-8 text: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        raise BadFile(where, f"is no JSON: {error}") from error
    check_texts(text, value, where)
    return value


def _unmeasured(name: str) -> None:
    """NaN and Infinity, which Python's writers give where nothing was measured."""
