"""What a step gives for each of its sequences, from the final hidden states of the rows that matter.

A request's outputs come from its own rows alone. Logits of scored prompt rows are made a slice at a time: all at once,
a long prompt's would not fit the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from runners.runtime.executor import ScheduledSequence
from runners.runtime.sampling.logprobs import token_logprobs
from runners.runtime.sampling.sampler import sample
from runners.runtime.sequence import TokenLogprobs

SCORED_ROWS = 64
"""Rows whose logits are held at once: 39 MB for a vocabulary of 150 000."""

Head = Callable[[torch.Tensor], torch.Tensor]
"""Hidden states (rows, hidden_size) → logits (rows, vocab_size) float32."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """By request id, as in `executor.StepResult`."""

    tokens: dict[str, int] = field(default_factory=dict)
    logprobs: dict[str, TokenLogprobs] = field(default_factory=dict)
    prompt_logprobs: dict[str, list[TokenLogprobs]] = field(default_factory=dict)
    embeddings: dict[str, tuple[float, ...]] = field(default_factory=dict)


def read_outputs(hidden: torch.Tensor, shares: Seq[ScheduledSequence], head: Head) -> Outputs:
    """From hidden states: first a row for each share with `sample`, then one for each scored position, in order."""
    sampled = [share for share in shares if share.sample]
    scored = [share for share in shares if share.scored_positions]
    outputs = Outputs()
    drawn = [row for row, share in enumerate(sampled) if not share.params.embed]
    rows = hidden[: len(sampled)]
    if len(drawn) < len(sampled):
        _read_embeddings(rows, sampled, outputs)
        rows = rows[drawn]
    if drawn:
        _read_tokens(head(rows), [sampled[row] for row in drawn], outputs)
    if scored:
        _read_prompt_logprobs(hidden[len(sampled) :], scored, head, outputs)
    return outputs


def _read_embeddings(hidden: torch.Tensor, shares: Seq[ScheduledSequence], outputs: Outputs) -> None:
    for row, share in enumerate(shares):
        if share.params.embed:
            vector = torch.nn.functional.normalize(hidden[row].to(torch.float32), dim=0)
            outputs.embeddings[share.request_id] = tuple(vector.tolist())


def _read_tokens(logits: torch.Tensor, shares: Seq[ScheduledSequence], outputs: Outputs) -> None:
    told = {row: share.params.logprobs for row, share in enumerate(shares) if share.params.logprobs is not None}
    # Sampling changes logits in place, and logprobs are those of the model.
    raw = {row: logits[row].clone() for row in told}
    tokens = sample(logits, shares)
    outputs.tokens.update((share.request_id, token) for share, token in zip(shares, tokens, strict=True))
    for row, num_top in told.items():
        outputs.logprobs[shares[row].request_id] = token_logprobs(raw[row], tokens[row], num_top)


def _read_prompt_logprobs(hidden: torch.Tensor, shares: Seq[ScheduledSequence], head: Head, outputs: Outputs) -> None:
    start = 0
    for share in shares:
        stop = start + len(share.scored_positions)
        outputs.prompt_logprobs[share.request_id] = list(_score(hidden[start:stop], share, head))
        start = stop


def _score(hidden: torch.Tensor, share: ScheduledSequence, head: Head) -> Iterator[TokenLogprobs]:
    assert share.past is not None and share.params.prompt_logprobs is not None  # as it has scored positions
    positions = share.scored_positions
    for start, stop in pairwise([*range(0, len(positions), SCORED_ROWS), len(positions)]):
        for position, row in zip(positions[start:stop], head(hidden[start:stop]), strict=True):
            yield token_logprobs(row, share.past.prompt_ids[position + 1], share.params.prompt_logprobs)
