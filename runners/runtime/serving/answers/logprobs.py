"""Log probabilities in the shapes of the two endpoints, and those of prompts in vLLM's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from runners.runtime.sequence import TokenLogprob, TokenLogprobs
from runners.runtime.tokenizer import Tokenizer

# JSON has no infinity; vLLM says this for a token that could not come.
LOWEST = -9999.0


def token_text(tokenizer: Tokenizer, token_id: int) -> str:
    """A token as people read it: U+FFFD for a part of a character, a control token by its name."""
    return _text(tokenizer.token_bytes(token_id, skip_special=False))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def finite(logprob: float) -> float:
    return max(logprob, LOWEST) if not math.isnan(logprob) else LOWEST


class CompletionLogprobs:
    """OpenAI's lists side by side. `text_offset` counts characters of the answer's text, token by token, over all
    events of a stream."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._text_of = partial(token_text, tokenizer)
        self._offset = 0

    def show(self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs | None]) -> dict[str, Any]:
        """Null logprobs stand for the first token of a prompt, which nothing foretells."""
        shown: dict[str, Any] = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
        for token_id, entry in zip(token_ids, logprobs, strict=True):
            text = self._text_of(token_id)
            shown["text_offset"].append(self._offset)
            shown["token_logprobs"].append(None if entry is None else finite(entry.chosen.logprob))
            shown["tokens"].append(text)
            shown["top_logprobs"].append(None if entry is None else self._top(entry))
            self._offset += len(text)
        return shown

    def _top(self, entry: TokenLogprobs) -> dict[str, float]:
        """The most likely, and the chosen one if it is not among them."""
        tokens = [*entry.top, entry.chosen]
        return {self._text_of(token.token_id): finite(token.logprob) for token in tokens}


def chat_logprobs(logprobs: Iterable[TokenLogprobs], tokenizer: Tokenizer) -> dict[str, Any]:
    def show(token: TokenLogprob) -> dict[str, Any]:
        raw = tokenizer.token_bytes(token.token_id, skip_special=False)
        return {"token": _text(raw), "logprob": finite(token.logprob), "bytes": list(raw)}

    return {
        "content": [{**show(entry.chosen), "top_logprobs": [show(token) for token in entry.top]} for entry in logprobs]
    }


def prompt_logprobs(logprobs: Iterable[TokenLogprobs | None], tokenizer: Tokenizer) -> list[Any]:
    """Per prompt token null (the first), or token id → its figures."""

    def show(token: TokenLogprob) -> dict[str, Any]:
        return {
            "logprob": finite(token.logprob),
            "rank": token.rank,
            "decoded_token": token_text(tokenizer, token.token_id),
        }

    return [entry and {str(token.token_id): show(token) for token in (entry.chosen, *entry.top)} for entry in logprobs]
