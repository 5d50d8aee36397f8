"""What the server and the engine process say to each other; one object a step, so that a step costs one write.

`key` is a sequence's name between the two, unique for the life of the server. Plain tuples where a step carries many
of them. Both ends are the same program, so pickle is safe between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from runners.events import KVBlocks
from runners.runtime.engine import EngineStats, RequestTiming
from runners.runtime.model_source import ModelSource
from runners.runtime.sequence import SamplingParams, TokenLogprobs


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How to build the engine: the model, the executor's options, the scheduler's."""

    model: ModelSource
    weights: Literal["bf16", "int8", "int4"]
    block_size: int
    num_blocks: int | None
    max_model_len: int | None
    threads: int | None
    max_num_seqs: int
    max_num_batched_tokens: int
    prefix_cache: bool
    chunked_prefill: bool
    policy: Literal["fcfs", "priority"]


@dataclass(frozen=True, slots=True)
class Add:
    key: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    priority: int


@dataclass(frozen=True, slots=True)
class Abort:
    key: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the process once the step in hand is done."""


Command = Add | Abort | Stop


@dataclass(frozen=True, slots=True)
class Loading:
    phase: str


@dataclass(frozen=True, slots=True)
class Ready:
    """`context_len` is the most tokens of prompt and output together; `facts` is provenance: weights,
    kernels, threads, versions."""

    context_len: int
    stats: EngineStats
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Accepted:
    key: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """`field` is the one at fault, as the client calls it; the message names it too."""

    key: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """One step: its figures in the order of `steps.FIELDS`; per token (key, token id, finish reason, timing: only with
    a finish reason, logprobs: only where asked for); and what the engine holds once finished sequences have let go.

    What few requests ask for: prompt logprobs (key, one per prompt token, null for the first), before the sequence's
    first token; embeddings (key, vector, timing), which end a sequence; failures (key, field at fault, message), too.
    """

    step: tuple[float, ...]
    tokens: tuple[tuple[str, int, str | None, RequestTiming | None, TokenLogprobs | None], ...]
    stats: EngineStats
    prompt_logprobs: tuple[tuple[str, tuple[TokenLogprobs | None, ...]], ...] = ()
    embeddings: tuple[tuple[str, tuple[float, ...], RequestTiming], ...] = ()
    failures: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds the KV blocks, by key; sent a few times a second while there is work, as it costs a look at each."""

    blocks: KVBlocks


@dataclass(frozen=True, slots=True)
class Aborted:
    """The sequence holds no block any more. `timing` is null where the engine no longer knew the request."""

    key: str
    timing: RequestTiming | None
    stats: EngineStats


@dataclass(frozen=True, slots=True)
class Fatal:
    """The engine cannot go on; the process ends after this."""

    message: str


Report = Loading | Ready | Accepted | Rejected | Progress | Holders | Aborted | Fatal
