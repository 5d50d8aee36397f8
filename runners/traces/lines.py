"""Lines of a stream of bytes, numbered from 1: none is ever held that is longer than a line may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from runners.traces.rows import BadLine, LineFault

MAX_LINE_BYTES = 4 * 1024 * 1024
BOM = b"\xef\xbb\xbf"

Line = tuple[int, bytes]


def read_lines(stream: BinaryIO, most_bytes: int = MAX_LINE_BYTES) -> Iterator[Line | BadLine]:
    """The lines without their ends; empty ones are left out. One that is too long is a BadLine, and skipped."""
    number = 0
    while line := stream.readline(most_bytes + 1):
        number += 1
        if len(line) > most_bytes and not line.endswith(b"\n"):
            _skip_rest(stream)
            yield BadLine(number, f"longer than {most_bytes} bytes")
            continue
        bare = (line.removeprefix(BOM) if number == 1 else line).strip()
        if bare:
            yield number, bare


def as_text(line: bytes) -> str:
    """Raises LineFault unless it is UTF-8 without NUL."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise LineFault("no UTF-8 text") from error
    if "\0" in text:
        raise LineFault("it holds a NUL")
    return text


def _skip_rest(stream: BinaryIO) -> None:
    while (rest := stream.readline(65_536)) and not rest.endswith(b"\n"):
        continue
