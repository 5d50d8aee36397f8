"""What a request's parameters do to its logits before a token is drawn: bias, penalties, and tokens that may not come.

In the order of vLLM: bias, repetition penalty, frequency and presence penalty; then bans, which nothing lifts again.
Temperature and the cuts of a draw are the sampler's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch

from runners.runtime.executor import ScheduledSequence
from runners.runtime.sequence import PastTokens, SamplingParams


def has_rules(share: ScheduledSequence) -> bool:
    """Whether `apply_rules` would do anything."""
    params = share.params
    if share.allowed is not None or params.logit_bias or params.bad_token_ids or params.has_penalties:
        return True
    return _bans_stops(share)


def apply_rules(logits: torch.Tensor, share: ScheduledSequence) -> None:
    """Change one row of logits (vocab_size,) in place; a token that may not come gets -inf, and one always may."""
    params, past = share.params, share.past
    if params.logit_bias:
        ids, biases = zip(*params.logit_bias, strict=True)
        logits.index_add_(0, logits.new_tensor(ids, dtype=torch.int64), logits.new_tensor(biases))
    if past is not None and params.has_penalties:
        _penalise(logits, params, past)
    banned = set(_bad_tokens(params.bad_token_ids, past.output_ids)) if past is not None else set()
    if _bans_stops(share):
        banned.update(params.stop_token_ids)
    _ban(logits, banned, share)


def _bans_stops(share: ScheduledSequence) -> bool:
    """Too early to stop. Under a structure, `allowed` says when a stop token may come; ignored ones do no harm."""
    params = share.params
    return share.num_output_tokens < params.min_tokens and not params.ignore_eos and share.allowed is None


def _penalise(logits: torch.Tensor, params: SamplingParams, past: PastTokens) -> None:
    """Keskar and others, CTRL (2019), for repetition; OpenAI's API reference for frequency and presence."""
    if params.repetition_penalty != 1.0:
        seen = logits.new_tensor(sorted({*past.prompt_ids, *past.output_ids}), dtype=torch.int64)
        values = logits[seen]
        penalty = params.repetition_penalty
        logits[seen] = torch.where(values > 0, values / penalty, values * penalty)
    if past.output_ids and (params.frequency_penalty or params.presence_penalty):
        ids, counts = zip(*Counter(past.output_ids).items(), strict=True)
        penalties = logits.new_tensor(counts) * params.frequency_penalty + params.presence_penalty
        logits.index_add_(0, logits.new_tensor(ids, dtype=torch.int64), penalties, alpha=-1)


def _bad_tokens(bad_token_ids: Iterable[tuple[int, ...]], output_ids: tuple[int, ...]) -> Iterable[int]:
    """The tokens that would complete one of the sequences, begun in the output."""
    for *head, last in bad_token_ids:
        if not head or output_ids[-len(head) :] == tuple(head):
            yield last


def _ban(logits: torch.Tensor, banned: set[int], share: ScheduledSequence) -> None:
    """A structure is kept whatever else is banned: where nothing else is left, bans give way."""
    ids = logits.new_tensor(sorted(banned), dtype=torch.int64)
    if share.allowed is None:
        if 0 < len(banned) < len(logits):
            logits[ids] = -torch.inf
        return
    allowed = torch.from_numpy(share.allowed).to(logits.device)
    if banned:
        rest = allowed.clone()
        rest[ids] = False
        allowed = rest if bool(rest.any()) else allowed
    logits.masked_fill_(~allowed, -torch.inf)
