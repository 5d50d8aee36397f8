"""Markers in text that arrives in pieces: how much must be held back because a marker may begin there."""

from __future__ import annotations


def held_len(text: str, marker: str) -> int:
    """The length of the longest end of `text` that begins `marker` without completing it."""
    for length in range(min(len(marker) - 1, len(text)), 0, -1):
        if marker.startswith(text[len(text) - length :]):
            return length
    return 0


def split_at(text: str, marker: str) -> tuple[str, str, bool]:
    """(text that is certain, what follows or is held back, whether the marker was found); the marker itself is
    dropped."""
    before, found, after = text.partition(marker)
    if found:
        return before, after, True
    keep = len(text) - held_len(text, marker)
    return text[:keep], text[keep:], False
