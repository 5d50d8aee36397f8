"""The protocol the engine speaks: a batch goes in, sampled tokens and the step's duration come out.

A measured executor runs a model; a modelled one asks a cost model and advances a virtual clock. The scheduler that
made the batch is the same object either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runners.runtime.sequence import SamplingParams


@dataclass(frozen=True, slots=True)
class ScheduledSequence:
    """One sequence's share of a step: `token_ids` are computed at positions `start … start + len - 1`.

    `block_table[i]` is the KV block that holds positions `i * block_size …`. With `sample`, the logits of the last
    position give the next token; `num_output_tokens` says how many the sequence has already, so that a sampled
    token depends on (seed, its index) alone and never on the batch.
    """

    request_id: str
    token_ids: tuple[int, ...]
    start: int
    block_table: tuple[int, ...]
    sample: bool
    params: SamplingParams
    num_output_tokens: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """Token sampled per request id (only those with `sample`), and how long the step took, in seconds."""

    tokens: dict[str, int]
    duration_s: float


class Executor(Protocol):
    """What the engine needs of a chip. `now()` is the clock on which steps are timed (monotonic or virtual)."""

    num_blocks: int
    block_size: int
    max_model_len: int

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult: ...

    def now(self) -> float: ...
