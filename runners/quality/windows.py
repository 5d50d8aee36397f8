"""Which windows of a text are scored. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class TextTooShort(ValueError):
    """The text has too few tokens for the windows asked for."""

    retry = False


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens of the text from `start`. Those from `first_scored` on are scored, each given all before it in here."""

    start: int
    token_ids: tuple[int, ...]
    first_scored: int

    @property
    def targets(self) -> tuple[int, ...]:
        """The scored tokens: of positions `first_scored` to the last."""
        return self.token_ids[self.first_scored :]


def cut_windows(
    token_ids: Sequence[int], num_windows: int, window_tokens: int, first_ids: Sequence[int] = ()
) -> list[Window]:
    """`num_windows` windows without overlap, spread evenly over the text, of which the second halves are scored. Each
    begins with `first_ids`, which the model wants in front of any text.

    Raises TextTooShort.
    """
    length = window_tokens - len(first_ids)
    most = len(token_ids) // length
    if num_windows > most:
        raise TextTooShort(
            f"quality.num_windows: {num_windows} windows of {window_tokens} tokens do not fit a text of "
            f"{len(token_ids)} tokens; allowed: at most {most}"
        )
    spread = (len(token_ids) - length) / max(num_windows - 1, 1)
    starts = [round(index * spread) for index in range(num_windows)]
    first = tuple(first_ids)
    return [Window(start, first + tuple(token_ids[start : start + length]), window_tokens // 2) for start in starts]
