"""What the engine gives: tokens and embeddings, a request's times, a step and its outputs, and gauges. Values alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from runners.events import Step
from runners.runtime.sequence import TokenLogprobs
from runners.runtime.tiers import TierLoad

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class RequestTiming:
    """The runtime's side of a finished request, as METRICS.md names it; times on the executor's clock.

    Of a request whose prompt was computed elsewhere, `queued_s` is when it came here, and `prefill_done_s` when its
    first token did. `loaded` is what of `cached_tokens` came out of tiers."""

    queued_s: float
    scheduled_first_s: float | None
    prefill_done_s: float | None
    finished_s: float
    preemptions: int
    cached_tokens: int
    draft_tokens: int = 0
    accepted_tokens: int = 0
    loaded: tuple[TierLoad, ...] = ()


class TokenOutput(NamedTuple):
    """One output token. A request's last one, which may be a stop token, has `finish_reason` and `timing`."""

    request_id: str
    token_id: int
    finish_reason: FinishReason | None = None
    timing: RequestTiming | None = None
    logprobs: TokenLogprobs | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingOutput:
    """The one output of a request for an embedding, which ends it: (hidden_size,), of Euclidean length 1."""

    request_id: str
    embedding: tuple[float, ...]
    timing: RequestTiming


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """One entry per prompt token, none for the first; told once, before the first output."""

    request_id: str
    logprobs: tuple[TokenLogprobs | None, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that can't go on and has ended; `field` is the one at fault, as the client calls it."""

    request_id: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class StepOutput:
    step: Step
    tokens: tuple[TokenOutput, ...]
    embeddings: tuple[EmbeddingOutput, ...] = ()
    prompt_logprobs: tuple[PromptLogprobs, ...] = ()
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Gauges at this moment. Blocks: used + cached + free = total; used slots hold tokens of used blocks."""

    running: int
    waiting: int
    kv_used_blocks: int
    kv_cached_blocks: int
    kv_free_blocks: int
    kv_used_slots: int
