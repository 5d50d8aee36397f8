"""The protocol the engine speaks: a batch goes in, sampled tokens and the step's duration come out.

A measured executor runs a model; a modelled one asks a cost model and advances a virtual clock. The scheduler that
made the batch is the same object either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from runners.events import Bound
from runners.runtime.sampling.structure import Allowed
from runners.runtime.sequence import PastTokens, SamplingParams, TokenLogprobs
from runners.runtime.tiers import TierLoad


@dataclass(slots=True)
class ScheduledSequence:
    """One sequence's share of a step: `token_ids` are computed at positions `start … start + len - 1`.

    `block_table[i]` is the KV block that holds positions `i * block_size …`. With `sample`, the logits of the last
    position give the next token; `num_output_tokens` says how many the sequence has already, so that a sampled
    token depends on (seed, its index) alone and never on the batch. `past` is there where the parameters look back,
    `allowed` where a structure says which tokens may come. `num_scored` prompt logprobs are known already. Keys and
    values of the first `num_received_tokens` were computed elsewhere and must be in their blocks before the step; told
    once, when the sequence starts here. After `token_ids` the blocks have room for `num_draft_tokens` more, which the
    executor may draft and verify in this step. `loaded` says which tokens of its prefix come out of tiers, in order and
    up to `start`, before the step; told once.

    A value that nobody changes. It is not frozen because one is made per sequence and step, and that takes twice as
    long for a frozen one.
    """

    request_id: str
    token_ids: tuple[int, ...]
    start: int
    block_table: tuple[int, ...]
    sample: bool
    params: SamplingParams
    num_output_tokens: int
    past: PastTokens | None = None
    allowed: Allowed | None = None
    num_scored: int = 0
    num_received_tokens: int = 0
    num_draft_tokens: int = 0
    loaded: tuple[TierLoad, ...] = ()

    @property
    def scored_positions(self) -> range:
        """Positions of this share whose logits give a prompt logprob: that of the token after each."""
        if self.params.prompt_logprobs is None or self.past is None:
            return range(0)
        stop = min(self.start + len(self.token_ids), len(self.past.prompt_ids) - 1)
        return range(max(self.start, self.num_scored), stop)


@dataclass(frozen=True, slots=True)
class StepDetail:
    """What a cost model says of a step beside its time, as runners.events.Step names it; None where it can't."""

    bound: Bound | None = None
    link_s: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave, by request id, and how long it took, in seconds.

    A share with `sample` has a token, or an embedding where its parameters ask for one. `logprobs` are those of the
    tokens, where asked for; `prompt_logprobs` has one entry per scored position. `detail` is a modelled step's.

    `accepted` are the tokens that follow a request's one: as many as drafts of it were accepted, each with its keys and
    values in place but the last.
    """

    tokens: Mapping[str, int]
    duration_s: float
    logprobs: Mapping[str, TokenLogprobs] = field(default_factory=dict)
    prompt_logprobs: Mapping[str, Sequence[TokenLogprobs]] = field(default_factory=dict)
    embeddings: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    detail: StepDetail | None = None
    accepted: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@runtime_checkable
class SteadyExecutor(Protocol):
    """What an executor also offers whose decode steps depend on nothing but the sequences' lengths, so that the engine
    can take several at once. Both methods are pure, and say just what `execute` would."""

    def now(self) -> float: ...

    def decode_steps(self, starts: Sequence[int]) -> Iterator[tuple[float, StepDetail | None]]:
        """Duration and detail of a step in which each sequence decodes one token, at position `starts[i]`; then of the
        step after it, at `starts[i] + 1`; and so on without end."""

    def decode_tokens(self, params: SamplingParams, first_index: int, num_tokens: int) -> Sequence[int]:
        """Output tokens number `first_index`, `first_index + 1`, … of a request."""


class Executor(Protocol):
    """What the engine needs of a chip. `now()` is the clock on which steps are timed (monotonic or virtual)."""

    num_blocks: int
    block_size: int
    max_model_len: int
    vocab_size: int

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult: ...

    def now(self) -> float: ...
