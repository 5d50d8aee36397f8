"""The vocabulary of a model that has no words: random weights, token ids in and out.

A token's text is its id in digits after a space, so that an answer can be read as the ids it has. A text can't be
encoded, and there is no chat.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from runners.runtime.tokenizer_parts import TokenizerParts


class NoWords(ValueError):
    """What was asked needs words."""

    def __init__(self) -> None:
        super().__init__("a model of random weights has no words; give token ids")


class IdsAlone:
    """What is asked of an encoder of texts."""

    def encode(self, text: str, /, *, add_special_tokens: bool = True) -> NoReturn:
        raise NoWords

    def token_to_id(self, text: str, /) -> None:
        return None


def ids_alone(vocab_size: int) -> TokenizerParts:
    texts = [f" {token_id}" for token_id in range(vocab_size)]
    return TokenizerParts(
        path=Path("random weights"),
        encoder=IdsAlone(),
        texts=texts,
        values=[text.encode() for text in texts],
        special_ids=frozenset(),
        around=None,
        strips_space=True,
        longest_token_bytes=len(texts[-1]),
        bos_id=None,
        eos_ids=(),
        special_texts={},
        templates={},
    )
