"""Draw one token per row of logits: greedy, or temperature with top-k and top-p.

The random number of a draw comes from a counter-based hash of (seed, index of the output token), so a request's
tokens depend on its own seed and logits alone: not on the batch, a preemption, or what was drawn before.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from runners.runtime.sequence import SamplingParams

_MASK = (1 << 64) - 1


def uniform(seed: int, index: int) -> float:
    """A number in [0, 1) fixed by (seed, index): two rounds of splitmix64, whose finaliser mixes every bit."""
    return (_splitmix64(_splitmix64(seed & _MASK) ^ (index & _MASK)) >> 11) * 2.0**-53


def _splitmix64(state: int) -> int:
    """Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014)."""
    state = (state + 0x9E3779B97F4A7C15) & _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def sample(logits: torch.Tensor, params: Seq[SamplingParams], indices: Seq[int]) -> list[int]:
    """A token id per row of logits (rows, vocab_size) float32; `indices[i]` counts the row's output tokens so far.

    Of equal logits the lowest id comes first, in greedy decoding and in the order that top-k and top-p cut.
    """
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    for row, (param, index) in enumerate(zip(params, indices, strict=True)):
        if param.temperature > 0.0:
            tokens[row] = _draw(logits[row], param, uniform(param.seed, index))
    return tokens


def _draw(logits: torch.Tensor, params: SamplingParams, number: float) -> int:
    """The token at which the cumulated probability of the kept tokens, most likely first, passes `number`."""
    scaled = logits.to(torch.float64) / params.temperature
    if 0 < params.top_k < scaled.numel():
        scaled, ids = _top_k(scaled, params.top_k)
    else:
        scaled, ids = scaled.sort(descending=True, stable=True)
    cumulated = torch.softmax(scaled, dim=-1).cumsum(dim=-1)
    kept = cumulated.numel()
    if params.top_p < 1.0:
        kept = min(int(torch.searchsorted(cumulated, params.top_p)) + 1, kept)
    target = number * float(cumulated[kept - 1])
    chosen = min(int(torch.searchsorted(cumulated[:kept], target, right=True)), kept - 1)
    return int(ids[chosen])


def _top_k(scaled: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest, largest first, lowest id first among equals (torch.topk promises no order among equals)."""
    threshold = scaled.topk(k).values[-1]
    ids = (scaled >= threshold).nonzero().flatten()
    values, order = scaled[ids].sort(descending=True, stable=True)
    return values[:k], ids[order][:k]
