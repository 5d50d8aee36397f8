"""The evidence of one run: where its requests' time went, in seconds added up over them, and what its steps say.

Gathered where the records are, once; small enough to be kept with the run. What is not known is None. Judging is in
`verdict`. The time of a request is from when it was due to when it ended, in five spans: until it was sent, until the
runtime queued it, the queue, the prefill, and the rest. Of a single engine each span after the sending is parted again
into time in which the engine was in a step and time in which it was not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from experiments.analysis.bottleneck.step_evidence import BusyTime, Floats, StepEvidence, look_at_steps
from runners.events import Report, RequestRecord, Step
from runners.spec import RunSpec
from runners.window import begins_in, window_of

SPANS = ("queue", "prefill", "decode")


@dataclass(frozen=True)
class Evidence:
    """Times in request-seconds over `requests` measured, finished requests whose times both ends told.

    `total_s` is from due to finished, `failed_s` what failed requests took. `idle_s` is by span what passed while the
    engine was in no step, None where a run has several engines. `first_sample_s` lies in the decode span.
    `redone_s` is what preempted requests took beyond the pace of the steps; `offered_tokens` what the cache might have
    served at most, by the prefixes and sessions of the workload. `phases` are a modelled run's shares of prefill and
    decode time by what bounded them, `moved_s` the waiting for KV between pools.
    """

    outcome: str
    modelled: bool
    finished: int
    requests: int
    failed: int
    attempt: int
    total_s: float
    failed_s: float
    client_wait_s: float
    network_s: float
    queue_s: float
    prefill_s: float
    first_sample_s: float
    decode_s: float
    idle_s: dict[str, float] | None
    redone_s: float
    preemptions: int
    prompt_tokens: int
    cached_tokens: int
    offered_tokens: int
    moved_s: float
    phases: dict[str, dict[str, float]]
    client: dict[str, Any]
    foreign_cpu_share: float | None
    steps: StepEvidence

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def gather(
    requests: Sequence[RequestRecord], steps: Sequence[Step], report: Report, spec: RunSpec, *, attempt: int = 1
) -> Evidence:
    measured = [record for record in requests if record.phase == "measured"]
    ok = [record for record in measured if record.status == "ok"]
    told = [record for record in ok if _is_told(record)]
    window = window_of(report)
    inside = [step for step in steps if begins_in(step, window)]
    seen = look_at_steps(inside, report, spec)
    times = _Times(told)
    failed = [record for record in measured if record.status in ("error", "timeout")]
    cached, offered, prompt = _cache(ok, spec)
    return Evidence(
        outcome=report.outcome,
        modelled=report.modelled,
        finished=len(ok),
        requests=len(told),
        failed=len(failed),
        attempt=attempt,
        total_s=times.total(),
        failed_s=sum((record.finished_s or record.sent_s) - record.scheduled_s for record in failed),
        client_wait_s=times.client_wait(told, ok),
        network_s=times.between("sent", "queued"),
        queue_s=times.between("queued", "first"),
        prefill_s=times.between("first", "filled"),
        first_sample_s=times.between("filled", "token"),
        decode_s=times.between("filled", "finished"),
        idle_s=times.idle(steps) if not any(step.engine for step in inside) and inside else None,
        redone_s=_redone_s(told, seen),
        preemptions=sum(record.preemptions or 0 for record in ok),
        prompt_tokens=prompt,
        cached_tokens=cached,
        offered_tokens=offered,
        moved_s=_moved_s(report, len(told)),
        phases=_phases(report),
        client=_client(report),
        foreign_cpu_share=report.facts.get("foreign_cpu_share"),
        steps=seen,
    )


def _is_told(record: RequestRecord) -> bool:
    times = (record.queued_s, record.scheduled_first_s, record.prefill_done_s, record.first_token_s, record.finished_s)
    return None not in times


class _Times:
    """The moments of requests that have them all, each an array in s."""

    def __init__(self, records: Sequence[RequestRecord]) -> None:
        def column(name: str) -> Floats:
            return np.asarray([getattr(record, name) for record in records], dtype=np.float64)

        self._at = {
            "due": column("scheduled_s"),
            "sent": column("sent_s"),
            "queued": column("queued_s"),
            "first": column("scheduled_first_s"),
            "filled": column("prefill_done_s"),
            "token": column("first_token_s"),
            "finished": column("finished_s"),
        }

    def between(self, start: str, end: str) -> float:
        return float(np.sum(np.maximum(self._at[end] - self._at[start], 0.0)))

    def total(self) -> float:
        return self.between("due", "finished")

    def client_wait(self, told: Sequence[RequestRecord], ok: Sequence[RequestRecord]) -> float:
        """Of every finished request where the runtime told no times at all."""
        return self.between("due", "sent") if told else sum(record.sent_s - record.scheduled_s for record in ok)

    def idle(self, steps: Sequence[Step]) -> dict[str, float]:
        busy, at = BusyTime(steps), self._at
        # A token that has come was of a step that has ended: what follows the last step's end is the way back.
        ends = {"queue": ("queued", "first"), "prefill": ("first", "filled"), "decode": ("token", "finished")}
        spans = {name: np.maximum(at[end] - at[start], 0.0) for name, (start, end) in ends.items()}
        return {
            name: float(np.sum(np.maximum(spans[name] - busy.within(at[start], at[end]), 0.0)))
            for name, (start, end) in ends.items()
        }


def _redone_s(records: Sequence[RequestRecord], seen: StepEvidence) -> float:
    """What preempted requests took for their answers beyond one step a token."""
    pace_s = seen.any_step_s or 0.0
    lost = 0.0
    for record in records:
        if record.preemptions and record.finished_s is not None and record.prefill_done_s is not None:
            own_steps = max((record.output_tokens or 1) - 1 - (record.accepted_tokens or 0), 0)
            lost += max(record.finished_s - record.prefill_done_s - own_steps * pace_s, 0.0)
    return lost if pace_s else 0.0


def _cache(records: Sequence[RequestRecord], spec: RunSpec) -> tuple[int, int, int]:
    """Tokens of prompts that came from the cache, that could have by the workload, and all of them.

    Of each shared prefix the full blocks count, once it has been sent; of a session's turn what the turn before it had
    and was answered.
    """
    known = [record for record in records if record.input_tokens is not None]
    prompt = sum(record.input_tokens or 0 for record in known)
    cached = sum(record.cached_tokens or 0 for record in known)
    size, shared = spec.engine.block_size, spec.workload.shared_prefix
    offered = 0
    if shared is not None:
        whole = shared.prefix_tokens // size * size
        offered += whole * max(len(known) - min(shared.groups, len(known)), 0)
    return cached, max(offered, _of_sessions(known, size)), prompt


def _of_sessions(records: Sequence[RequestRecord], block_size: int) -> int:
    turns: dict[tuple[str, int], int] = {}
    for record in records:
        if record.session is not None and record.turn is not None:
            so_far = (record.input_tokens or 0) + (record.output_tokens or 0)
            turns[record.session, record.turn] = max(turns.get((record.session, record.turn), 0), so_far)
    offered = 0
    for record in records:
        if record.session is not None and record.turn is not None:
            before = min(turns.get((record.session, record.turn - 1), 0), record.input_tokens or 0)
            offered += before // block_size * block_size
    return offered


def _moved_s(report: Report, requests: int) -> float:
    """What so many requests waited for KV of another pool, by the mean over all transfers."""
    transfers = report.facts.get("transfers") or {}
    count, waited_s = transfers.get("count"), transfers.get("waited_s")
    return requests * waited_s / count if count and waited_s else 0.0


def _phases(report: Report) -> dict[str, dict[str, float]]:
    found = {}
    for name, told in (report.facts.get("phases") or {}).items():
        seconds = told.get("seconds")
        if seconds:
            parts = ("compute", "bandwidth", "link", "overhead")
            found[name] = {part: float(told.get(f"{part}_s") or 0.0) / seconds for part in parts}
    return found


def _client(report: Report) -> dict[str, Any]:
    told: Mapping[str, Any] = report.client
    return {name: told.get(name) for name in ("p99_lag_s", "late_share", "cpu_share", "limited_by", "was_limit")}
