"""Which sampling parameters the engine takes. Fields have the names by which clients know them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from runners.runtime.admission import RequestRejected
from runners.runtime.sequence import SamplingParams

MAX_LOGPROBS = 20
MAX_LOGIT_BIASES = 300
MAX_BIAS = 100.0
MAX_PENALTY = 2.0
REPETITION_PENALTIES = (0.01, 100.0)
"""Beyond these, logits divided by the penalty leave the range of float32."""
MAX_BAD_WORDS = 128
MAX_BAD_WORD_TOKENS = 64


def check_sampling(params: SamplingParams, vocab_size: int) -> None:
    """Raise RequestRejected for a value out of its range, not finite, or a token outside the vocabulary."""
    _check_ranges(params)
    for name, count in (("logprobs", params.logprobs), ("prompt_logprobs", params.prompt_logprobs)):
        if count is not None and not 0 <= count <= MAX_LOGPROBS:
            raise RequestRejected(name, count, f"0 to {MAX_LOGPROBS}")
    _check_count("logit_bias", len(params.logit_bias), MAX_LOGIT_BIASES, "tokens")
    for token_id, bias in params.logit_bias:
        _check_tokens("logit_bias", [token_id], vocab_size)
        _check_range("logit_bias", bias, -MAX_BIAS, MAX_BIAS)
    _check_count("bad_words", len(params.bad_token_ids), MAX_BAD_WORDS, "sequences")
    for tokens in params.bad_token_ids:
        if not 1 <= len(tokens) <= MAX_BAD_WORD_TOKENS:
            raise RequestRejected("bad_words", f"a sequence of {len(tokens)} tokens", f"1 to {MAX_BAD_WORD_TOKENS}")
        _check_tokens("bad_words", tokens, vocab_size)
    _check_tokens("stop_token_ids", params.stop_token_ids, vocab_size)


def _check_ranges(params: SamplingParams) -> None:
    _check_range("temperature", params.temperature, 0.0, math.inf)
    _check_range("top_p", params.top_p, 0.0, 1.0)
    _check_range("min_p", params.min_p, 0.0, 1.0)
    if params.top_k < 0:
        raise RequestRejected("top_k", params.top_k, "at least 1, or 0 to keep all")
    _check_range("repetition_penalty", params.repetition_penalty, *REPETITION_PENALTIES)
    _check_range("presence_penalty", params.presence_penalty, -MAX_PENALTY, MAX_PENALTY)
    _check_range("frequency_penalty", params.frequency_penalty, -MAX_PENALTY, MAX_PENALTY)


def _check_range(field: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        allowed = f"{low:g} to {high:g}" if math.isfinite(high) else f"a finite number of at least {low:g}"
        raise RequestRejected(field, value, allowed)


def _check_count(field: str, count: int, most: int, what: str) -> None:
    if count > most:
        raise RequestRejected(field, f"a list of {count} {what}", f"at most {most}")


def _check_tokens(field: str, token_ids: Iterable[int], vocab_size: int) -> None:
    for token_id in token_ids:
        if not 0 <= token_id < vocab_size:
            raise RequestRejected(field, f"token {token_id}", f"0 to {vocab_size - 1}")
