"""What a node says about a run: the events that travel from the node to the record tables.

Each event is one JSON object with a `kind`. The node numbers the events of an attempt from 1 without a gap;
the number is not part of the event (it is the stream id `<attempt>-<seq>`). All times are seconds on the run's
clock: the load generator's monotonic clock, or the virtual clock of a modelled node, zero where the warm-up begins.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

MAX_MESSAGE = 8_000
"""Characters of one log line; a node cuts what is longer."""

MAX_TOKENS = 131_072
"""Stream events of one request: as many as the longest output has tokens."""


MAX_OWNERS = 64
"""Requests that a sample names as holders of KV blocks."""


class Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Status(Event):
    """The attempt entered a phase, or got on in it (`detail`). `wall_s` is the node's Unix time, kept only to place the
    run in a day. While a node is `fetching` the model, the run's time limit does not count."""

    kind: Literal["status"] = "status"
    phase: Literal["fetching", "starting", "warming_up", "measuring", "draining", "done"]
    t_s: float | None = None
    wall_s: float
    detail: str = ""


class KVBlocks(BaseModel):
    """Who has the KV blocks at one moment; the parts add up to all of them.

    `owners` is by request id what that request alone holds, the MAX_OWNERS largest; `others` what the rest hold each
    for themselves; `shared` is held by several requests, `cached` by none but kept for a later prefix hit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    owners: Annotated[dict[str, int], Field(max_length=MAX_OWNERS)]
    others: int = 0
    shared: int = 0
    cached: int = 0
    free: int = 0


class Sample(Event):
    """What happened in one interval of about 250 ms, seen by the client and by the runtime together.

    `mean`/`max` pairs reduce the runtime's steps inside the interval, or what another engine said of itself at moments
    of it; they are null where no step ran and nothing was said. `kv_used_*` is
    the share of all KV blocks that sequences hold, 0 to 1; `kv_blocks` says whose they are near the interval's end.
    """

    kind: Literal["sample"] = "sample"
    t_s: float
    interval_s: float
    phase: Literal["warmup", "measured"] = "measured"
    input_tokens: int = 0
    output_tokens: int = 0
    finished: int = 0
    errors: int = 0
    in_flight: int = 0
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    itl_p50_s: float | None = None
    itl_p95_s: float | None = None
    steps: int = 0
    busy_s: float = 0.0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    running_mean: float | None = None
    running_max: int | None = None
    waiting_mean: float | None = None
    waiting_max: int | None = None
    kv_used_mean: float | None = None
    kv_used_max: float | None = None
    kv_blocks: KVBlocks | None = None
    preemptions: int = 0


class RequestRecord(Event):
    """One request, as METRICS.md defines its times. `token_times_s[i]` is when stream event i arrived and
    `token_counts[i]` how many output tokens it carried.

    A request of a conversation or an agent's task names its `session`, and is the session's `turn`-th step (from 1;
    requests side by side have one turn), one of `session_requests` planned. The first `thinking_tokens` of the output
    came before the answer. `correct` says whether a checked answer was right, `headers_s` when the response's headers
    came.
    """

    kind: Literal["request"] = "request"
    index: int
    request_id: str
    phase: Literal["warmup", "measured"]
    scheduled_s: float
    sent_s: float
    first_token_s: float | None = None
    token_times_s: list[float] = Field(default_factory=list, max_length=MAX_TOKENS)
    token_counts: list[int] = Field(default_factory=list, max_length=MAX_TOKENS)
    finished_s: float | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    target_output_tokens: int | None = None
    status: Literal["ok", "error", "cancelled", "timeout"]
    finish_reason: str | None = None
    error: str | None = None
    queued_s: float | None = None
    scheduled_first_s: float | None = None
    prefill_done_s: float | None = None
    preemptions: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    session: str | None = None
    turn: int | None = None
    session_requests: int | None = None
    traffic_class: str | None = None
    thinking_tokens: int | None = None
    correct: bool | None = None
    headers_s: float | None = None

    @model_validator(mode="after")
    def one_count_for_each_time(self) -> Self:
        if len(self.token_times_s) != len(self.token_counts):
            raise ValueError(f"{len(self.token_times_s)} token_times_s but {len(self.token_counts)} token_counts")
        return self


Bound = Literal["compute", "bandwidth", "link", "overhead"]


class Step(Event):
    """One engine step. Blocks: used (held by a sequence) + cached (evictable) + free = total.

    `engine` names the engine where a run has several. A modelled step says what it was bound by, how much of it the
    links between chips took, and the energy of all its engine's chips while it ran.
    """

    kind: Literal["step"] = "step"
    index: int
    start_s: float
    duration_s: float
    prefill_tokens: int
    decode_tokens: int
    running: int
    waiting: int
    kv_used_blocks: int
    kv_cached_blocks: int
    kv_free_blocks: int
    kv_used_slots: int
    preempted: int = 0
    cached_tokens: int = 0
    loaded_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    engine: str | None = None
    bound: Bound | None = None
    link_s: float | None = None
    energy_j: float | None = None


class Log(Event):
    kind: Literal["log"] = "log"
    wall_s: float
    level: Literal["debug", "info", "warning", "error"]
    source: Annotated[str, Field(max_length=200)]
    message: Annotated[str, Field(max_length=MAX_MESSAGE)]


class Report(Event):
    """The attempt's last event: its outcome, the window that counts, and what it ran on.

    `client` says how far the load generator was behind its own plan; `facts` is provenance (versions, chip, model
    hash, kernels, threads, cost-model version and its error where the node is modelled).
    """

    kind: Literal["report"] = "report"
    outcome: Literal["succeeded", "failed", "cancelled"]
    error: str | None = None
    retry: bool = False
    window_start_s: float | None = None
    window_end_s: float | None = None
    client: dict[str, Any] = Field(default_factory=dict)
    facts: dict[str, Any] = Field(default_factory=dict)
    modelled: bool = False
    events: int = 0


AnyEvent = Annotated[Status | Sample | RequestRecord | Step | Log | Report, Field(discriminator="kind")]
EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
