"""What a result file says: its tool, its runs, each run's own figures, and its requests where the file has them.

A figure is kept under this lab's name where the tool means the same by it (METRICS.md's last paragraph), in seconds
and tokens; the tool's own name stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from runners.events import RequestRecord
from runners.metric import samples_needed

Tool = Literal["vllm", "aiperf", "guidellm", "llm-d", "inferencex"]
Scalar = str | int | float | bool

SHOWN_PERCENTILES = ("p50", "p90", "p95", "p99")


@dataclass(frozen=True)
class Load:
    """How requests were sent: `request_rate` per second where arrivals were open, else `max_concurrency` users.
    `num_requests` counts the measured ones; token counts are means, None where the file does not say."""

    num_requests: int
    max_concurrency: int | None = None
    request_rate: float | None = None
    burstiness: float = 1.0
    input_tokens: float | None = None
    output_tokens: float | None = None


@dataclass(frozen=True)
class Figure:
    """One figure as the tool gave it: `value` is the median of a latency, the figure itself of a rate. `n` is how many
    requests it rests on, 0 where the file does not say."""

    theirs: str
    value: float | None
    unit: str
    n: int = 0
    mean: float | None = None
    percentiles: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"theirs": self.theirs, "value": self.value, "unit": self.unit, "n": self.n, "mean": self.mean,
                "percentiles": dict(self.percentiles)}  # fmt: skip

    def as_metric(self) -> dict[str, Any]:
        """In the form of a run's summary (runners.metrics.Metric)."""
        points = {
            name: {"value": value, "enough": self.n >= samples_needed(float(name[1:]))}
            for name, value in self.percentiles.items()
            if name in SHOWN_PERCENTILES
        }
        return {"value": self.value, "unit": self.unit, "n": self.n, "percentiles": points}


@dataclass(frozen=True)
class Window:
    """The measured window in seconds of the records' clock."""

    start_s: float
    end_s: float


@dataclass(frozen=True)
class ForeignRun:
    """One measurement of the file. `records` gives its requests anew each time, None where the file has none; then
    `window` is None too. `unmeasured` are figures of ours that its records can't give, though they seem to, and
    `unjudged` the reasons against a run's validity that can't be looked into. `modelled` where the file says so, as
    those that this lab writes of modelled runs do."""

    label: str
    model: str
    load: Load
    figures: Mapping[str, Figure]
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    records: Callable[[], Iterator[RequestRecord]] | None = None
    window: Window | None = None
    failed: int = 0
    unmeasured: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    modelled: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForeignFile:
    """`runs` may be read again and again: each is found in the file when it is asked for."""

    tool: Tool
    version: str
    runs: Callable[[], Iterable[ForeignRun]]
