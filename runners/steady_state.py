"""Whether the load was what it was meant to be for long enough: the share of the window in which it was. Pure.

A closed loop is at its load while nine tenths of its users have something under way, a request or a session (which
goes on while a person thinks). An open one keeps up while what was sent before the last arrival has ended by then. Each
stage is judged by itself, and the worst one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.events import RequestRecord
from runners.spec import ClosedArrival, RunSpec, StagedArrival
from runners.traffic_parts import Stage, stages_of
from runners.window import Window

AT_LOAD = 0.9
RAMP_PIECES = 20
"""So many steps stand for a stage's ramp."""

Piece = tuple[float, float, float]
"""Start and end, and the load meant between them."""


@dataclass(frozen=True)
class Steadiness:
    """The share found, and a sentence for a person about it."""

    share: float
    message: str


def steadiness(measured: Sequence[RequestRecord], window: Window, spec: RunSpec) -> Steadiness:
    """Of a window in which something was sent."""
    arrival = spec.workload.arrival
    if isinstance(arrival, StagedArrival):
        judged = list(_by_stage(measured, window, spec, arrival))
        return min(judged, key=lambda one: one.share, default=Steadiness(1.0, ""))
    if isinstance(arrival, ClosedArrival):
        spans = spans_under_way(measured)
        load = AT_LOAD * min(arrival.max_concurrency, len(spans))
        share = share_at_load(spans, [(*window, load)])
        said = f"at least 90 % of {arrival.max_concurrency} users were in flight for {share:.0%} of the window"
        return Steadiness(share, said)
    share = served_share(measured)
    said = f"only {share:.0%} of the requests had finished when the last arrived: the backlog kept growing"
    return Steadiness(share, said)


def _by_stage(
    measured: Sequence[RequestRecord], window: Window, spec: RunSpec, arrival: StagedArrival
) -> Iterator[Steadiness]:
    spans, before = spans_under_way(measured), 0.0
    for stage in stages_of(measured, window, spec):
        where = f"in stage {stage.index + 1} ({stage.level:g} {stage.unit})"
        if not arrival.is_open:
            share = share_at_load(spans, _pieces(stage, before))
            yield Steadiness(share, f"{where} at least 90 % of the users were in flight for {share:.0%} of its time")
        elif len(stage.records) > 1:
            share = served_share(stage.records)
            said = f"{where} only {share:.0%} of the requests had finished when its last arrived: the backlog grew"
            yield Steadiness(share, said)
        before = stage.level


def _pieces(stage: Stage, before: float) -> list[Piece]:
    start_s, end_s = stage.window
    if stage.ramp == "step":
        return [(start_s, end_s, AT_LOAD * stage.level)]
    step_s, rise = (end_s - start_s) / RAMP_PIECES, (stage.level - before) / RAMP_PIECES
    return [
        (start_s + place * step_s, start_s + (place + 1) * step_s,
         AT_LOAD * int(before + rise * (place if rise > 0 else place + 1)))
        for place in range(RAMP_PIECES)
    ]  # fmt: skip


def spans_under_way(records: Sequence[RequestRecord]) -> list[tuple[float, float | None]]:
    """From when to when each request, or each session, was under way; None where it did not come to its end."""
    by_session: dict[str, list[RequestRecord]] = {}
    for record in records:
        by_session.setdefault(record.session or record.request_id, []).append(record)
    return [_span(one) for one in by_session.values()]


def _span(records: Sequence[RequestRecord]) -> tuple[float, float | None]:
    start_s = min(record.sent_s for record in records)
    ends = [record.finished_s for record in records if record.finished_s is not None]
    if len(ends) < max(len(records), records[0].session_requests or 1):
        return start_s, None
    return start_s, max(ends)


def share_at_load(spans: Sequence[tuple[float, float | None]], pieces: Sequence[Piece]) -> float:
    """Share of the pieces' time in which as much was under way as was meant."""
    changes = [(start_s, 1) for start_s, _ in spans]
    changes += [(end_s, -1) for _, end_s in spans if end_s is not None]
    changes.sort()
    at_load_s = sum(_time_at_load(changes, piece) for piece in pieces)
    return at_load_s / sum(end_s - start_s for start_s, end_s, _ in pieces)


def _time_at_load(changes: Sequence[tuple[float, int]], piece: Piece) -> float:
    start_s, end_s, load = piece
    at_load_s, under_way, last_s = 0.0, 0, start_s
    for time_s, change in changes:
        now_s = min(max(time_s, start_s), end_s)
        if under_way >= load:
            at_load_s += now_s - last_s
        under_way, last_s = under_way + change, now_s
    return at_load_s + (end_s - last_s if under_way >= load else 0.0)


def served_share(records: Sequence[RequestRecord]) -> float:
    """Of the requests sent before the last, those that had finished when that was sent."""
    last_sent_s = max(record.sent_s for record in records)
    before = [record for record in records if record.sent_s < last_sent_s]
    done = [record for record in before if record.finished_s is not None and record.finished_s <= last_sent_s]
    return len(done) / len(before) if before else 1.0


def why_stopped(saturation: Mapping[str, Any]) -> str:
    """Of a load that stopped early, with what it found and the threshold (runners.load.saturation), where it told."""
    message = "the load stopped early, as it was over-saturated"
    if not {"after_s", "in_flight", "ttft_slope", "ttft_slope_threshold"} <= saturation.keys():
        return message
    return (
        f"{message}: after {saturation['after_s']:.0f} s {saturation['in_flight']} requests were in flight, and the"
        f" time to a first token grew by {saturation['ttft_slope']:.2f} s per second, where at most"
        f" {saturation['ttft_slope_threshold']:g} is allowed"
    )
