"""What a vocabulary's entries stand for, as bytes. A token may end within a character, so it has bytes and no text.

Two spellings exist: byte-level (GPT-2) writes every byte as a printable character; SentencePiece writes a space as
U+2581 and a byte it has no piece for as `<0x0A>`.
"""

from __future__ import annotations

import re

SPACE = "\u2581"
"""SentencePiece's sign for a space."""

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable character for each byte, turned around: printable bytes stand for themselves, the others
    for the characters from U+0100 on, in order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + index): byte for index, byte in enumerate(rest)}


_BYTE_OF = _byte_alphabet()


def byte_level_bytes(text: str) -> bytes:
    """The bytes of a byte-level entry; one that isn't spelled so (a foreign entry) stands for its own text."""
    try:
        return bytes([_BYTE_OF[char] for char in text])
    except KeyError:
        return plain_bytes(text)


def piece_bytes(text: str, *, byte_fallback: bool) -> bytes:
    """The bytes of a SentencePiece entry."""
    if byte_fallback and (byte := _BYTE_PIECE.fullmatch(text)):
        return bytes([int(byte[1], 16)])
    return plain_bytes(text.replace(SPACE, " "))


def plain_bytes(text: str) -> bytes:
    """UTF-8; lone surrogates, which no text has, become question marks."""
    return text.encode("utf-8", "replace")
