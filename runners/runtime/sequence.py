"""A request inside the engine: its tokens, its state and how it is sampled."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class SequenceState(StrEnum):
    """WAITING → RUNNING → FINISHED, and RUNNING → WAITING when preempted. ABORTED ends any state."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. `temperature` 0 is greedy; `top_k` 0 keeps all; `seed` must be set for
    temperature > 0 (the server draws one where the client gave none). `stop_token_ids` end a sequence unless
    `ignore_eos`, and not before `min_tokens` output tokens.

    Stop strings are text, so the server watches for them and aborts; the engine knows tokens alone.
    """

    max_tokens: int = 16
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Sequence:
    """Tokens of one request and how far they are computed.

    No phases: a sequence has `num_tokens`, and `num_computed_tokens` chases it. Times are on the executor's
    clock. `order` is (priority, arrival): lower runs sooner. `cached_tokens` counts the prompt tokens that
    its first admission found in the prefix cache, `num_published_blocks` its blocks offered to that cache.
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

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.output_ids)

    @property
    def num_uncomputed_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.output_ids) - self.num_computed_tokens

    def tokens(self, start: int, stop: int) -> tuple[int, ...]:
        """Token ids at positions `start … stop - 1`, prompt and output as one line."""
        prompt_len = len(self.prompt_ids)
        if stop <= prompt_len:
            return self.prompt_ids[start:stop]
        head = self.prompt_ids[start:prompt_len]
        return head + tuple(self.output_ids[max(start - prompt_len, 0) : stop - prompt_len])
