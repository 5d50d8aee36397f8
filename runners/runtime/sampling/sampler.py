"""Draw one token per row of logits: greedy, or temperature with min-p, top-k and top-p, in that order as in vLLM.

The random number of a draw comes from a counter-based hash of (seed, index of the output token), so a request's
tokens depend on its own seed and logits alone: not on the batch, a preemption, or what was drawn before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq

import torch

from runners.runtime.executor import ScheduledSequence
from runners.runtime.sampling.logit_rules import apply_rules, has_rules
from runners.runtime.sequence import SamplingParams

FIRST_CANDIDATES = 1024
"""Tokens among which top-p looks before it sorts the vocabulary."""

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


def sample(logits: torch.Tensor, shares: Seq[ScheduledSequence]) -> list[int]:
    """A token id per row of logits (rows, vocab_size) float32, each under its share's parameters.

    Rules that change logits change them in place. Of equal logits the lowest id comes first, in greedy decoding and in
    the order that the cuts go by.
    """
    for row, share in enumerate(shares):
        if has_rules(share):
            apply_rules(logits[row], share)
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    for row, share in enumerate(shares):
        if share.params.temperature > 0.0:
            tokens[row] = _draw(logits[row], share.params, uniform(share.params.seed, share.num_output_tokens))
    return tokens


def largest(values: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(values, ids) of the `count` largest of a row, largest first, lowest id first among equals, of which
    torch.topk promises nothing."""
    threshold = values.topk(count).values[-1]
    ids = (values >= threshold).nonzero().flatten()
    kept, order = values[ids].sort(descending=True, stable=True)
    return kept[:count], ids[order][:count]


def _draw(logits: torch.Tensor, params: SamplingParams, number: float) -> int:
    """The kept token at which the cumulated probability passes `number` times that of all kept ones."""
    # Relative to the largest, so that no temperature, however low, makes an infinity.
    scaled = (logits.to(torch.float64) - logits.max()) / params.temperature
    probabilities, ids = _keep(scaled, params)
    cumulated = probabilities.cumsum(dim=-1)
    total = float(cumulated[-1])
    target = min(number * total, math.nextafter(total, 0.0))
    chosen = int(torch.searchsorted(cumulated, target, right=True))
    return chosen if ids is None else int(ids[chosen])


def _keep(scaled: torch.Tensor, params: SamplingParams) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(probabilities, ids) of what the cuts leave of a row whose largest value is 0, largest first.

    Without any cut the ids are null and the order is theirs: to sort a whole vocabulary takes most of a draw's time.
    """
    count = params.top_k if 0 < params.top_k < scaled.numel() else scaled.numel()
    if params.min_p > 0.0:
        count = min(count, int((scaled >= math.log(params.min_p)).sum()))
    ids = None
    if count < scaled.numel():
        scaled, ids = largest(scaled, count)
    probabilities = torch.softmax(scaled, dim=-1)
    if params.top_p >= 1.0:
        return probabilities, ids
    if ids is None:
        probabilities, ids = _most_likely(probabilities, params.top_p)
    kept = int(torch.searchsorted(probabilities.cumsum(dim=-1), params.top_p)) + 1
    return probabilities[:kept], ids[:kept]


def _most_likely(probabilities: torch.Tensor, mass: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(probabilities, ids), largest first, of enough tokens to have that mass, where so many there are."""
    if probabilities.numel() > FIRST_CANDIDATES:
        values, ids = largest(probabilities, FIRST_CANDIDATES)
        if float(values.sum()) > mass:
            return values, ids
    return largest(probabilities, probabilities.numel())
