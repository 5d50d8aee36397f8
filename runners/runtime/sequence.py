"""A request inside the engine: its tokens, its state and how it is sampled."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from runners.runtime.sampling.structure import StructureState
from runners.runtime.tiers import TierLoad


class SequenceState(StrEnum):
    """WAITING → RUNNING → FINISHED, and RUNNING → WAITING when preempted. ABORTED ends any state."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """ln p of one token before temperature and cuts; `rank` 1 is the most likely."""

    token_id: int
    logprob: float
    rank: int


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The token at one place, and the most likely ones there, most likely first."""

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


StructureKind = Literal["json_schema", "json_object", "regex", "choice", "grammar"]


@dataclass(frozen=True, slots=True)
class Structure:
    """What an output must match: `text` is a JSON schema, a regular expression, a JSON list of choices, or a grammar
    (Lark); empty for `json_object`. `field` is what the client called it, for errors."""

    kind: StructureKind
    text: str = ""
    field: str = "response_format"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. `temperature` 0 is greedy; `top_k` 0 keeps all; `min_p` cuts tokens less likely than that
    share of the likeliest; `seed` must be set for temperature > 0 (the server draws one where the client gave none).
    `stop_token_ids` end a sequence unless `ignore_eos`, and are not drawn before `min_tokens` output tokens.

    Penalties as vLLM and OpenAI define them: repetition over prompt and output, presence and frequency over the output.
    `logprobs` and `prompt_logprobs`: how many of the most likely tokens beside the chosen one; None for nothing.
    `bad_token_ids` are sequences of tokens that must not come out. `embed` asks for the hidden state of the last prompt
    token in place of any output.

    An output under a `structure` ends with "stop" where the structure is complete, before `min_tokens` and under
    `ignore_eos` too; stop tokens end it only where the structure would be met.

    Stop strings are text, so the server watches for them and aborts; the engine knows tokens alone.
    """

    max_tokens: int = 16
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_token_ids: tuple[tuple[int, ...], ...] = ()
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    structure: Structure | None = None
    embed: bool = False

    @property
    def has_penalties(self) -> bool:
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    @property
    def looks_back(self) -> bool:
        """Whether a step must know the sequence's earlier tokens."""
        return self.prompt_logprobs is not None or bool(self.bad_token_ids) or self.has_penalties


@dataclass(frozen=True, slots=True)
class PastTokens:
    """A sequence's prompt and its output so far, for what looks back: penalties, bad words, prompt logprobs."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReceivedKV:
    """What another engine did of a request: keys and values of its first `num_tokens` tokens, prompt and output as one
    line, and the output so far (usually one token, which the prefill gave and nobody has computed yet)."""

    num_tokens: int
    output_ids: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Sequence:
    """Tokens of one request and how far they are computed.

    No phases: a sequence has `num_tokens`, and `num_computed_tokens` chases it. Times are on the executor's
    clock. `order` is (priority, arrival): lower runs sooner. `cached_tokens` counts the prompt tokens that
    its first admission found in the prefix cache, `num_published_blocks` its blocks offered to that cache.
    `structure` says where the output stands in the structure it must match. `prompt_logprobs`, where asked for, grows
    to one entry per prompt token but the first.

    Of its prefix, `num_received_tokens` come from another engine and `loaded` out of tiers, until the first step after
    it was admitted has them; after a preemption all is computed here that no cache has. `tier_hits` is what its first
    admission found in tiers. With `keep_kv` its blocks outlast it.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    priority: int = 0
    order: tuple[int, int] = (0, 0)
    output_ids: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    block_table: tuple[int, ...] = ()
    num_published_blocks: int = 0
    state: SequenceState = SequenceState.WAITING
    cached_tokens: int = 0
    preemptions: int = 0
    queued_s: float = 0.0
    scheduled_first_s: float | None = None
    prefill_done_s: float | None = None
    draft_tokens: int = 0
    accepted_tokens: int = 0
    structure: StructureState | None = None
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_received_tokens: int = 0
    loaded: tuple[TierLoad, ...] = ()
    tier_hits: tuple[TierLoad, ...] = ()
    keep_kv: bool = False
    looks_back: bool = field(init=False)
    looks_beyond_lengths: bool = field(init=False)

    def __post_init__(self) -> None:
        # Once, as each step asks.
        params = self.params
        self.looks_back = params.looks_back
        self.looks_beyond_lengths = self.looks_back or params.logprobs is not None or self.structure is not None

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.output_ids)

    @property
    def num_uncomputed_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.output_ids) - self.num_computed_tokens

    @property
    def lacks_prompt_logprobs(self) -> bool:
        return self.params.prompt_logprobs is not None and len(self.prompt_logprobs) < len(self.prompt_ids) - 1

    def past(self) -> PastTokens:
        return PastTokens(self.prompt_ids, tuple(self.output_ids))

    def tokens(self, start: int, stop: int) -> tuple[int, ...]:
        """Token ids at positions `start … stop - 1`, prompt and output as one line."""
        prompt_len = len(self.prompt_ids)
        if stop <= prompt_len:
            return self.prompt_ids[start:stop]
        head = self.prompt_ids[start:prompt_len]
        return head + tuple(self.output_ids[max(start - prompt_len, 0) : stop - prompt_len])
