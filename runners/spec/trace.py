"""Recorded traffic as a workload: which trace, how much of it, and how fast it is played."""

from __future__ import annotations

from pydantic import Field

from runners.spec.base import Document, Slug

MAX_TRACE_REQUESTS = 1_000_000
LONGEST_TRACE_S = 366 * 86_400.0


class TraceSpec(Document):
    """A trace that is registered in the experiment's project. `start_s`, `seconds` and `num_requests` say which of its
    rows are taken, in the trace's own time; a row comes `time_scale` times as late as it was recorded, so 0.5 plays it
    twice as fast."""

    name: Slug
    time_scale: float = Field(default=1.0, ge=1e-6, le=1e6)
    start_s: float = Field(default=0.0, ge=0, le=LONGEST_TRACE_S)
    seconds: float | None = Field(default=None, gt=0, le=LONGEST_TRACE_S)
    num_requests: int | None = Field(default=None, ge=1, le=MAX_TRACE_REQUESTS)


class TraceExtent(Document):
    """How much there is: of requests, of seconds from the cut's beginning to the last of them, and of tokens, as
    recorded. `longest` is the longest prompt and answer of one request together."""

    requests: int = Field(ge=1, le=MAX_TRACE_REQUESTS)
    lasts_s: float = Field(ge=0, le=LONGEST_TRACE_S)
    longest_input: int = Field(ge=1)
    longest_output: int = Field(ge=1)
    longest: int = Field(ge=2)
    input_tokens: int = Field(ge=1)
    output_tokens: int = Field(ge=1)


class TraceRef(Document):
    """A trace as a run was made for it: `sha256` is that of the file as the lab keeps it, `extent` that of the rows
    that the workload takes."""

    name: Slug
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=1)
    block_tokens: int = Field(ge=1, le=65_536)
    extent: TraceExtent
