"""The parts of a run that have figures of their own: its classes of traffic, and its stages in time.

Says which requests are whose; the figures are for `runners.metrics` to give. A request belongs to the stage in which it
was due to be sent, whenever it ended; a stage's throughput is of what ended in it, whenever that was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from runners.events import RequestRecord
from runners.spec import RunSpec, StagedArrival
from runners.window import Window

FIGURES = (
    "ttft", "effective_ttft", "tpot", "itl", "e2el", "interactivity", "time_to_answer", "queue_wait",
    "output_throughput", "request_throughput", "goodput", "goodput_share", "requests_ok", "requests_failed",
)  # fmt: skip
"""What a part has: no cost, energy or use of the engine, which the parts share."""
RATES = ("output_throughput", "request_throughput", "goodput")
"""Those of them that are counted by when requests ended."""


@dataclass(frozen=True)
class Stage:
    """`level` is what it ends at: requests per second, or users (`unit`)."""

    index: int
    window: Window
    level: float
    unit: str
    ramp: str
    records: list[RequestRecord]
    ended: list[RequestRecord]


def records_by_class(records: Sequence[RequestRecord], spec: RunSpec) -> dict[str, list[RequestRecord]]:
    """In the order of the workload's classes; empty where it has none."""
    found: dict[str, list[RequestRecord]] = {one.name: [] for one in spec.workload.classes}
    for record in records:
        if record.traffic_class in found:
            found[record.traffic_class].append(record)
    return found


def stages_of(records: Sequence[RequestRecord], window: Window | None, spec: RunSpec) -> Iterator[Stage]:
    """The stages that began within the window; none where the workload has none."""
    arrival = spec.workload.arrival
    if window is None or not isinstance(arrival, StagedArrival):
        return
    start_s, unit = window[0], "req/s" if arrival.is_open else "users"
    ends = list(accumulate((stage.duration_s for stage in arrival.stages), initial=start_s))
    for index, (stage, (begin_s, end_s)) in enumerate(zip(arrival.stages, pairwise(ends), strict=True)):
        if begin_s >= window[1]:
            return
        due = [record for record in records if begin_s <= record.scheduled_s < end_s]
        ended = [record for record in records if begin_s <= (record.finished_s or -1.0) < end_s]
        yield Stage(index, (begin_s, min(end_s, window[1])), stage.level, unit, stage.ramp, due, ended)
