"""When a run's figures may be used: every reason code, its threshold in one table, and the check behind it.

A run without reasons is valid. An invalid one is kept and shown, but can't be called best nor enter a Pareto front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from runners.events import Report, RequestRecord, Step
from runners.quality_figures import QualityFacts, floor_breaches, quality_figures, read_quality
from runners.spec import RunSpec
from runners.steady_state import steadiness, why_stopped
from runners.window import window_of

THRESHOLDS: dict[str, float] = {
    "warmup_leak": 0,  # warm-up requests still in flight when the window opened
    "no_steady_state": 0.5,  # least share of the window at ≥ 90 % of the intended load
    "too_few_requests": 20,  # fewest ok requests
    "errors_over_1pct": 0.01,  # share of measured requests that failed
    "client_bound": 0.05,  # seconds: p99 of the load generator's own lag
    "clock_skew": 0.005,  # seconds by which runtime times may leave the client's span
    "cache_contaminated": 0.01,  # share of input tokens served from a cache the workload does not share on purpose
    "node_shared": 0.2,  # share of the node's CPU time that went to processes that are not the lab's
    "power_gap": 3.0,  # seconds of the window without a sample of the chips' power
    "throttled": 0.05,  # share of the window's scheduler periods in which the CPU was throttled
    "output_length_mismatch": 0,  # ok requests whose output is not as long as asked for
    "retried": 1,  # attempts made
}


@dataclass(frozen=True)
class Reason:
    """Why a run is invalid: the value found, the threshold it broke, and a sentence for a person."""

    code: str
    message: str
    value: float | None = None
    threshold: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Evidence:
    requests: Sequence[RequestRecord]
    measured: Sequence[RequestRecord]
    steps: Sequence[Step]
    report: Report
    spec: RunSpec
    attempt: int


def find_reasons(
    requests: Sequence[RequestRecord],
    steps: Sequence[Step],
    report: Report,
    spec: RunSpec,
    *,
    attempt: int = 1,
) -> list[Reason]:
    """Every reason that holds; an empty list means valid."""
    measured = [record for record in requests if record.phase == "measured"]
    evidence = Evidence(requests, measured, steps, report, spec, attempt)
    return [reason for check in CHECKS for reason in check(evidence)]


def _broken(code: str, value: float, message: str) -> Reason:
    return Reason(code, message, float(value), THRESHOLDS[code])


def _cancelled(e: Evidence) -> Iterator[Reason]:
    if e.report.outcome == "cancelled":
        yield Reason("cancelled", "the run was cancelled before its end")


def _warmup_leak(e: Evidence) -> Iterator[Reason]:
    start = e.report.window_start_s
    if start is None:
        return
    late = [r for r in e.requests if r.phase == "warmup" and (r.finished_s is None or r.finished_s > start)]
    if len(late) > THRESHOLDS["warmup_leak"]:
        yield _broken("warmup_leak", len(late), f"{len(late)} warm-up requests ran into the measured window")


def _no_steady_state(e: Evidence) -> Iterator[Reason]:
    window = window_of(e.report)
    if window is None or not e.measured:
        yield _broken("no_steady_state", 0.0, "there is no measured window")
        return
    if e.report.client.get("stopped_early"):
        yield Reason("no_steady_state", why_stopped(e.report.client.get("saturation") or {}))
        return
    found = steadiness(e.measured, window, e.spec)
    if found.share < THRESHOLDS["no_steady_state"]:
        yield _broken("no_steady_state", found.share, found.message)


def _too_few_requests(e: Evidence) -> Iterator[Reason]:
    ok = sum(record.status == "ok" for record in e.measured)
    if ok < THRESHOLDS["too_few_requests"]:
        yield _broken("too_few_requests", ok, f"{ok} requests finished; at least 20 are needed")


def _errors(e: Evidence) -> Iterator[Reason]:
    failed = sum(record.status != "ok" for record in e.measured)
    share = failed / len(e.measured) if e.measured else 0.0
    if share > THRESHOLDS["errors_over_1pct"]:
        yield _broken("errors_over_1pct", share, f"{failed} of {len(e.measured)} requests failed")


def _client_bound(e: Evidence) -> Iterator[Reason]:
    lag_s = e.report.client.get("p99_lag_s")
    if lag_s is not None and lag_s > THRESHOLDS["client_bound"]:
        yield _broken("client_bound", lag_s, f"the load generator itself was late by {lag_s * 1000:.0f} ms at p99")


def _clock_skew(e: Evidence) -> Iterator[Reason]:
    worst = 0.0
    for record in e.measured:
        if record.queued_s is not None:
            worst = max(worst, record.sent_s - record.queued_s)
        if record.prefill_done_s is not None and record.first_token_s is not None:
            worst = max(worst, record.prefill_done_s - record.first_token_s)
    if worst > THRESHOLDS["clock_skew"]:
        yield _broken("clock_skew", worst, f"runtime and client clocks disagree by {worst * 1000:.1f} ms")


def _cache_contaminated(e: Evidence) -> Iterator[Reason]:
    known = [record for record in e.measured if record.cached_tokens is not None and record.input_tokens]
    total = sum(record.input_tokens or 0 for record in known)
    replayed = _shared_by_trace(e)
    meant = e.spec.workload.shared_prefix is not None or e.spec.workload.has_sessions or replayed > 0
    beyond_meant = sum(max((record.cached_tokens or 0) - shared_tokens(record, e.spec), 0) for record in known)
    share = max(beyond_meant - replayed, 0) / total if total else 0.0
    if share > THRESHOLDS["cache_contaminated"]:
        beyond = "beyond what is" if meant else "though no prefix is"
        message = f"{share:.1%} of input tokens came from the prefix cache, {beyond} shared on purpose"
        yield _broken("cache_contaminated", share, message)


def _shared_by_trace(e: Evidence) -> int:
    """Tokens of all prompts together whose blocks or sessions a replayed trace names; 0 for any other load."""
    return int((e.report.client.get("trace") or {}).get("shared_tokens") or 0)


def shared_tokens(record: RequestRecord, spec: RunSpec) -> int:
    """The most tokens of a prompt that the workload shares on purpose: a prefix, and of a session all that came before.
    What a turn adds is its own."""
    workload = spec.workload
    if workload.kind == "tasks":
        return record.input_tokens or 0  # questions begin alike: with the model's chat template
    if workload.has_sessions and (record.turn or 1) > 1:
        own = [one.input_len or workload.input_len for one in workload.classes] or [workload.input_len]
        adds = [workload.agent.tool_result_tokens] if workload.kind == "agent" else own
        return max((record.input_tokens or 0) - min(one.shortest for one in adds), 0)
    return workload.shared_prefix.prefix_tokens if workload.shared_prefix else 0


def _node_shared(e: Evidence) -> Iterator[Reason]:
    share = e.report.facts.get("foreign_cpu_share")
    if share is not None and share > THRESHOLDS["node_shared"]:
        yield _broken("node_shared", share, f"processes other than the lab's used {share:.0%} of the node's CPU time")


def _throttled(e: Evidence) -> Iterator[Reason]:
    share = e.report.facts.get("throttled_share")
    if share is not None and share > THRESHOLDS["throttled"]:
        yield _broken("throttled", share, f"the CPU was throttled in {share:.0%} of the scheduler's periods")


def _power_gap(e: Evidence) -> Iterator[Reason]:
    gap_s = (e.report.facts.get("power") or {}).get("largest_gap_s")
    if gap_s is not None and gap_s > THRESHOLDS["power_gap"]:
        yield _broken("power_gap", gap_s, f"for {gap_s:.1f} s of the window nothing is known of the chips' power")


def _output_length(e: Evidence) -> Iterator[Reason]:
    if not e.spec.workload.sampling.ignore_eos or e.spec.workload.kind == "tasks":
        return
    wrong = sum(
        record.status == "ok" and record.target_output_tokens not in (None, record.output_tokens)
        for record in e.measured
    )
    if wrong > THRESHOLDS["output_length_mismatch"]:
        yield _broken("output_length_mismatch", wrong, f"{wrong} outputs are not as long as was asked for")


def _retried(e: Evidence) -> Iterator[Reason]:
    if e.attempt > THRESHOLDS["retried"]:
        yield _broken("retried", e.attempt, f"this is attempt {e.attempt}: an earlier one was lost or failed")


def _quality_below_floor(e: Evidence) -> Iterator[Reason]:
    """The thresholds are the experiment's own. A floor that can't be checked is not kept; a modelled run has none."""
    quality = e.spec.quality
    if quality is None or e.report.modelled:
        return
    facts = read_quality(e.report) or QualityFacts()
    for breach in floor_breaches(facts, quality.floor):
        yield Reason("quality_below_floor", breach.message, breach.figure.value, breach.bound)
    known = quality_figures(facts)
    for name, bound in quality.floor.bounds().items():
        if name not in known:
            why = "; ".join(facts.not_measured) or "the run reports no quality"
            yield Reason("quality_below_floor", f"{name} has a floor of {bound:g} and was not measured: {why}")


def _emulated_speed(e: Evidence) -> Iterator[Reason]:
    if e.report.facts.get("emulated"):
        yield Reason("emulated_speed", "the format or the chip was emulated, so its speed says nothing")


def _speculative_chip(e: Evidence) -> Iterator[Reason]:
    records = e.spec.chips or {e.spec.chip_id: e.spec.chip or {}}
    names = sorted(chip_id for chip_id, record in records.items() if record.get("speculative"))
    if names:
        message = f"the record of {' and of '.join(names)} stands in for figures that its vendor has not disclosed"
        yield Reason("speculative_chip", message)


CHECKS: tuple[Callable[[Evidence], Iterator[Reason]], ...] = (
    _cancelled,
    _warmup_leak,
    _no_steady_state,
    _too_few_requests,
    _errors,
    _client_bound,
    _clock_skew,
    _cache_contaminated,
    _node_shared,
    _throttled,
    _power_gap,
    _output_length,
    _retried,
    _quality_below_floor,
    _emulated_speed,
    _speculative_chip,
)
