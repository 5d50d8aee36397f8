"""What a prompt says, as token ids of an exact length.

No two prompts of a run begin with the same KV block by accident, warm-up and measured alike: otherwise the prefix
cache would give figures that the workload does not have. Prefixes that prompts are to share are made apart, and no two
of those begin alike either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from runners.load.seeds import Stream, random_stream

SMALLEST_BLOCK = 8

Ids = tuple[int, ...]


class PromptSource(Protocol):
    def prompt(self, number: int, length: int) -> Ids:
        """`length` token ids of the run's request `number` (warm-up first, from 0)."""
        ...

    def prefix(self, group: int, length: int) -> Ids:
        """`length` token ids with which every prompt of a group begins."""
        ...

    def answer(self, number: int, length: int) -> Ids:
        """`length` token ids that stand for the answer to request `number`."""
        ...


class SyntheticPrompts:
    """Random ids of `allowed_ids` (those that are not special tokens), evenly drawn."""

    def __init__(self, seed: int, allowed_ids: Sequence[int] | np.ndarray) -> None:
        self._seed = seed
        self._allowed = np.asarray(allowed_ids, dtype=np.int64)
        if not self._allowed.size:
            raise ValueError("allowed_ids: empty; allowed: at least one token id")

    def prompt(self, number: int, length: int) -> Ids:
        return self._draw(Stream.PROMPT, number, length)

    def prefix(self, group: int, length: int) -> Ids:
        return self._draw(Stream.PREFIX, group, length)

    def answer(self, number: int, length: int) -> Ids:
        return self._draw(Stream.UNKNOWN_ANSWER, number, length)

    def _draw(self, stream: Stream, number: int, length: int) -> Ids:
        rng = random_stream(self._seed, stream, number)
        return tuple(self._allowed[rng.integers(0, self._allowed.size, length)].tolist())


class TextPrompts:
    """Slices of one text, taken at seeded places that never repeat while the text has fresh ones.

    Only places are used whose next SMALLEST_BLOCK tokens come nowhere earlier in the text. After the last fresh
    place the round starts again with random ids in place of each slice's first block. The text is read as a ring.
    """

    def __init__(self, seed: int, text_ids: Sequence[int], allowed_ids: Sequence[int] | np.ndarray) -> None:
        self._seed = seed
        self._text = np.asarray(text_ids, dtype=np.int64)
        if self._text.size < SMALLEST_BLOCK:
            raise ValueError(f"text_ids: {self._text.size} tokens; allowed: at least {SMALLEST_BLOCK}")
        self._fill = SyntheticPrompts(seed, allowed_ids)
        starts = _distinct_starts(self._text)
        self._prompt_starts = random_stream(seed, Stream.TEXT_ORDER).permutation(starts)
        self._prefix_starts = random_stream(seed, Stream.PREFIX_ORDER).permutation(starts)

    def prompt(self, number: int, length: int) -> Ids:
        return self._cut(self._prompt_starts, number, length, self._fill.prompt)

    def prefix(self, group: int, length: int) -> Ids:
        return self._cut(self._prefix_starts, group, length, self._fill.prefix)

    def answer(self, number: int, length: int) -> Ids:
        return self._fill.answer(number, length)

    def _cut(self, starts: np.ndarray, number: int, length: int, fill: Callable[[int, int], Ids]) -> Ids:
        round_number, place = divmod(number, len(starts))
        positions = np.arange(starts[place], starts[place] + length) % self._text.size
        ids = tuple(self._text[positions].tolist())
        if not round_number:
            return ids
        fresh = min(SMALLEST_BLOCK, length)
        return fill(number, fresh) + ids[fresh:]


def _distinct_starts(text: np.ndarray) -> np.ndarray:
    """First place of each distinct window of SMALLEST_BLOCK tokens in the text."""
    windows = np.lib.stride_tricks.sliding_window_view(text, SMALLEST_BLOCK)
    _, first = np.unique(windows, axis=0, return_index=True)
    return np.sort(first)
