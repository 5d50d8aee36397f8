"""What a tokenizer is made of, however a model's files spell it: the readers' result, and `Tokenizer`'s ingredients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

MAX_VOCAB = 1 << 22
"""Ids a vocabulary may have. The largest published ones have some 260 thousand."""

UNBOUNDED_TOKEN_BYTES = 1 << 20
"""For `longest_token_bytes` where one token may stand for text of any length."""


class Encoder(Protocol):
    """What is asked of the tokenizers library; `encode` gives an object with `ids`."""

    def encode(self, text: str, /, *, add_special_tokens: bool = True) -> Any: ...

    def token_to_id(self, text: str, /) -> int | None: ...


@dataclass(frozen=True, slots=True)
class TokenizerParts:
    """`texts` and `values` are by token id: each entry's spelling, and the bytes it stands for.

    `around` are the ids that go before and after a text, None where the encoder itself adds them. `strips_space`:
    the encoder puts a space before a text, so decoding takes one away. `special_ids` are the control tokens.
    """

    path: Path
    encoder: Encoder
    texts: Sequence[str]
    values: Sequence[bytes]
    special_ids: frozenset[int]
    around: tuple[tuple[int, ...], tuple[int, ...]] | None
    strips_space: bool
    longest_token_bytes: int
    bos_id: int | None
    eos_ids: tuple[int, ...]
    special_texts: Mapping[str, str]
    templates: Mapping[str, str]


def longest_bytes(texts: Sequence[str], values: Sequence[bytes]) -> int:
    """The most bytes of text that one token can stand for."""
    spelled = max((len(text.encode("utf-8", "replace")) for text in texts), default=1)
    return max(spelled, max(map(len, values), default=1), 1)
