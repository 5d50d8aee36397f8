"""The definitions of METRICS.md as code: the records of one run in, its figures and its validity out.

Pure: no clock, no storage. A figure that was not measured is None, never 0; each says how many samples it rests on.
What makes a run invalid is in `runners.validity`; bytes and FLOPs of a step are in `runners.roofline`, chips, links,
power and price of a system in `runners.system_figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from runners.events import Report, RequestRecord, Step
from runners.roofline import Utilisation, measure_utilisation
from runners.spec import RunSpec, SloSpec
from runners.system_figures import SystemFigures, sum_over_engines, system_figures
from runners.ttft_parts import mean_parts, part_values
from runners.validity import Reason, find_reasons
from runners.window import begins_in, length_s, window_of

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True)
class Percentile:
    value: float
    enough: bool


@dataclass(frozen=True)
class Metric:
    """One figure of a run. For latencies `value` is the median over requests and `percentiles` has the rest."""

    value: float | None
    unit: str
    n: int
    percentiles: dict[str, Percentile] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        percentiles = {name: {"value": p.value, "enough": p.enough} for name, p in self.percentiles.items()}
        return {"value": self.value, "unit": self.unit, "n": self.n, "percentiles": percentiles}


@dataclass(frozen=True)
class Summary:
    """`latencies` are the values behind the latency figures (see `latency_values`); they are no part of the JSON.
    `ttft_parts` are the mean parts of TTFT (see `runners.ttft_parts`); `energy_source` says how the chips' power is
    known: rapl, nvml, amdsmi, modelled, or assumed."""

    metrics: dict[str, Metric]
    reasons: tuple[Reason, ...]
    modelled: bool
    latencies: dict[str, list[float]] = field(default_factory=dict)
    ttft_parts: dict[str, Any] | None = None
    energy_source: str | None = None

    @property
    def valid(self) -> bool:
        return not self.reasons

    def as_json(self) -> dict[str, Any]:
        return {
            "metrics": {name: metric.as_json() for name, metric in self.metrics.items()},
            "valid": self.valid,
            "reasons": [reason.as_json() for reason in self.reasons],
            "modelled": self.modelled,
            "ttft_parts": self.ttft_parts,
            "energy_source": self.energy_source,
        }


def samples_needed(percentile: float) -> int:
    """Fewest samples for a tail percentile: P(at most one sample beyond it) ≤ 1 %.

    MLPerf Inference's early-stopping rule with one allowed over-latency sample: 64 for p90, 662 for p99.
    """
    inside = max(percentile, 100 - percentile) / 100
    n = 2
    while inside**n + n * (1 - inside) * inside ** (n - 1) > 0.01:
        n += 1
    return n


_NEEDED = {p: samples_needed(p) for p in PERCENTILES}


def summarize(
    requests: Sequence[RequestRecord],
    steps: Sequence[Step],
    report: Report,
    spec: RunSpec,
    *,
    attempt: int = 1,
) -> Summary:
    """Figures over the measured window `[report.window_start_s, report.window_end_s]`, and the run's validity."""
    measured = [record for record in requests if record.phase == "measured"]
    window = window_of(report)
    inside = [step for step in steps if begins_in(step, window)]
    latencies = latency_values(measured, spec)
    system = system_figures(steps, report, spec)
    metrics = {
        **_latency_metrics(latencies),
        **_rate_metrics(measured, report, spec, system),
        **_runtime_metrics(measured, inside, report, spec, system),
        **_power_metrics(measured, report, spec, system),
    }
    reasons = find_reasons(requests, inside, report, spec, attempt=attempt)
    parts = mean_parts([record for record in measured if record.status == "ok"])
    return Summary(metrics, tuple(reasons), report.modelled, latencies, parts, system.energy_source)


# Per request


def ttft_s(record: RequestRecord) -> float | None:
    return None if record.first_token_s is None else record.first_token_s - record.sent_s


def effective_ttft_s(record: RequestRecord) -> float | None:
    return None if record.first_token_s is None else record.first_token_s - record.scheduled_s


def tpot_s(record: RequestRecord) -> float | None:
    if record.first_token_s is None or record.finished_s is None or (record.output_tokens or 0) < 2:
        return None
    return (record.finished_s - record.first_token_s) / ((record.output_tokens or 0) - 1)


def e2el_s(record: RequestRecord) -> float | None:
    return None if record.finished_s is None else record.finished_s - record.sent_s


def interactivity(record: RequestRecord) -> float | None:
    """Tokens per second as one user sees them: 1 / TPOT. None where TPOT is undefined or 0."""
    tpot = tpot_s(record)
    return 1 / tpot if tpot else None


def chunk_gaps_s(record: RequestRecord) -> list[float]:
    """ICL: gaps between consecutive stream events that carried tokens."""
    times = [t for t, k in zip(record.token_times_s, record.token_counts, strict=True) if k > 0]
    return [later - earlier for earlier, later in pairwise(times)]


def token_gaps_s(record: RequestRecord) -> list[float]:
    """ITL: an event with k tokens gives its gap once and k − 1 zeros, so the gaps number `output tokens − 1`."""
    gaps: list[float] = []
    last: float | None = None
    for time_s, count in zip(record.token_times_s, record.token_counts, strict=True):
        if count <= 0:
            continue
        if last is not None:
            gaps.append(time_s - last)
        gaps.extend([0.0] * (count - 1))
        last = time_s
    return gaps


def meets_slo(record: RequestRecord, slo: SloSpec) -> bool | None:
    """Whether one request is ok and within every objective; None without an SLO.

    An objective on a percentile binds the run (see `slo_met`); for goodput its bound is asked of each request too.
    """
    bounds = [(measure, bound) for measure, bound, _ in objectives(slo)]
    if not bounds:
        return None
    if record.status != "ok":
        return False
    values = [(measure(record), bound) for measure, bound in bounds]
    return all(value is None or value <= bound for value, bound in values)


Measure = Callable[[RequestRecord], float | None]


def objectives(slo: SloSpec) -> list[tuple[Measure, float, str | None]]:
    """(measure, bound in s, percentile or None) for each objective that the SLO names."""
    found: list[tuple[Measure, float, str | None]] = []
    for measure, value in ((ttft_s, slo.ttft_s), (tpot_s, slo.tpot_s), (e2el_s, slo.e2el_s)):
        if isinstance(value, dict):
            found.extend((measure, bound, name) for name, bound in value.items())
        elif value is not None:
            found.append((measure, value, None))
    return found


def slo_met(records: Sequence[RequestRecord], slo: SloSpec) -> bool | None:
    """Whether the run as a whole meets its SLO: every bare bound by every ok request, every percentile by its value."""
    checks = []
    for measure, bound, percentile in objectives(slo):
        values = [v for record in records if record.status == "ok" and (v := measure(record)) is not None]
        if not values:
            return False
        worst = max(values) if percentile is None else float(np.percentile(values, float(percentile[1:])))
        checks.append(worst <= bound)
    return all(checks) if checks else None


# Per run


def _distribution(values: Sequence[float], unit: str) -> Metric:
    if not values:
        return Metric(None, unit, 0)
    array = np.asarray(values, dtype=np.float64)
    points = np.percentile(array, PERCENTILES)
    percentiles = {
        f"p{p}": Percentile(float(v), len(values) >= _NEEDED[p]) for p, v in zip(PERCENTILES, points, strict=True)
    }
    return Metric(float(points[0]), unit, len(values), percentiles)


def latency_values(requests: Sequence[RequestRecord], spec: RunSpec) -> dict[str, list[float]]:
    """Every value of each latency over measured, successful requests: s, for interactivity tok/s."""
    ok = [record for record in requests if record.phase == "measured" and record.status == "ok"]

    def over(measure: Measure) -> list[float]:
        return [v for record in ok if (v := measure(record)) is not None]

    values = {
        "ttft": over(ttft_s),
        "tpot": over(tpot_s),
        "e2el": over(e2el_s),
        "interactivity": over(interactivity),
        "itl": [gap for record in ok for gap in token_gaps_s(record)],
        "icl": [gap for record in ok for gap in chunk_gaps_s(record)],
        "queue_wait": over(lambda r: _difference(r.scheduled_first_s, r.queued_s)),
        "prefill_time": over(lambda r: _difference(r.prefill_done_s, r.scheduled_first_s)),
        **part_values(ok),
    }
    if spec.workload.arrival.kind == "open":
        values["effective_ttft"] = over(effective_ttft_s)
    return values


def _latency_metrics(values: Mapping[str, Sequence[float]]) -> dict[str, Metric]:
    units = {"interactivity": "tok/s"}
    metrics = {name: _distribution(found, units.get(name, "s")) for name, found in values.items()}
    return metrics | {"interactivity": _slow_tail(metrics["interactivity"], values["interactivity"])}


def _slow_tail(metric: Metric, values: Sequence[float]) -> Metric:
    """Interactivity's bad end is the low one: p95 here is the speed that 95 % of users exceed."""
    if not values:
        return metric
    points = np.percentile(np.asarray(values), [100 - p for p in PERCENTILES])
    tail = {f"p{p}": Percentile(float(v), len(values) >= _NEEDED[p]) for p, v in zip(PERCENTILES, points, strict=True)}
    return Metric(metric.value, metric.unit, metric.n, tail)


def _difference(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier


def _rate_metrics(
    measured: Sequence[RequestRecord], report: Report, spec: RunSpec, system: SystemFigures
) -> dict[str, Metric]:
    ok = [record for record in measured if record.status == "ok"]
    window_s = length_s(report)
    outputs = sum(record.output_tokens or 0 for record in ok)
    inputs = sum(record.input_tokens or 0 for record in ok)
    good = [record for record in ok if meets_slo(record, spec.slo)]
    has_slo = bool(objectives(spec.slo))
    n = len(ok)

    def rate(count: float, unit: str) -> Metric:
        return Metric(count / window_s if window_s else None, unit, n)

    usd_per_s = system.usd_per_hour / 3600 if system.usd_per_hour is not None else None
    cost = usd_per_s * window_s / outputs * 1e6 if usd_per_s is not None and window_s and outputs else None
    per_usd = outputs / (usd_per_s * window_s) if usd_per_s and window_s else None
    metrics = {
        "output_throughput": rate(outputs, "tok/s"),
        "total_throughput": rate(inputs + outputs, "tok/s"),
        "request_throughput": rate(n, "req/s"),
        "output_throughput_per_chip": rate(outputs / system.chips, "tok/s/chip"),
        "output_tokens_per_usd": Metric(per_usd, "tok/$", n),
        "cost_per_million_output_tokens": Metric(cost, "$", n),
        "goodput": rate(len(good), "req/s") if has_slo else Metric(None, "req/s", n),
        "goodput_share": Metric(len(good) / len(measured) if has_slo and measured else None, "share", len(measured)),
        "token_goodput": (
            rate(sum(record.output_tokens or 0 for record in good), "tok/s") if has_slo else Metric(None, "tok/s", n)
        ),
        "slo_met": Metric(None if (met := slo_met(measured, spec.slo)) is None else float(met), "0 or 1", n),
        "output_tokens": Metric(float(outputs), "tok", n),
        "input_tokens": Metric(float(inputs), "tok", n),
        "requests_ok": Metric(float(n), "req", len(measured)),
        "requests_failed": Metric(float(len(measured) - n), "req", len(measured)),
        "window": Metric(window_s, "s", n),
    }
    return metrics | _concurrency_metrics(measured, report)


def _power_metrics(
    measured: Sequence[RequestRecord], report: Report, spec: RunSpec, system: SystemFigures
) -> dict[str, Metric]:
    """Energy of the window over what came out of it. A request is useful where it met the SLO; without one, that is not
    known."""
    ok = [record for record in measured if record.status == "ok"]
    outputs, n = sum(record.output_tokens or 0 for record in ok), len(ok)
    useful = sum(bool(meets_slo(record, spec.slo)) for record in ok) if objectives(spec.slo) else 0
    energy_j, window_s = system.energy_j, length_s(report)

    def energy_per(count: int) -> Metric:
        return Metric(energy_j / count if energy_j is not None and count else None, "J", n)

    return {
        "mean_power": Metric(energy_j / window_s if energy_j is not None and window_s else None, "W", n),
        "energy_per_output_token": energy_per(outputs),
        "energy_per_request": energy_per(n),
        "energy_per_useful_answer": energy_per(useful),
        # tok/s over kW is tokens over kJ
        "output_throughput_per_kw": Metric(outputs / energy_j * 1000 if energy_j else None, "tok/s/kW", n),
    }


def _concurrency_metrics(measured: Sequence[RequestRecord], report: Report) -> dict[str, Metric]:
    """Time-average of requests in flight, and how far Little's law (throughput × mean E2EL) is from it."""
    n = len(measured)
    window = window_of(report)
    if window is None or not n:
        return {"concurrency": Metric(None, "req", n), "littles_law_error": Metric(None, "share", n)}
    start, end = window
    window_s = end - start
    in_flight_s = sum(
        max(
            0.0,
            min(record.finished_s if record.finished_s is not None else end, end) - max(record.sent_s, start),
        )
        for record in measured
    )
    concurrency = in_flight_s / window_s
    spans = [span for record in measured if (span := e2el_s(record)) is not None]
    little = sum(spans) / window_s
    error = abs(little - concurrency) / concurrency if concurrency else None
    return {"concurrency": Metric(concurrency, "req", n), "littles_law_error": Metric(error, "share", n)}


def _runtime_metrics(
    measured: Sequence[RequestRecord], steps: Sequence[Step], report: Report, spec: RunSpec, system: SystemFigures
) -> dict[str, Metric]:
    ok = [record for record in measured if record.status == "ok"]
    n = len(steps)

    def mean(values: Sequence[float], unit: str) -> Metric:
        return Metric(float(np.mean(values)) if len(values) else None, unit, len(values))

    held = [step.kv_used_blocks for step in steps]
    total = [step.kv_used_blocks + step.kv_cached_blocks + step.kv_free_blocks for step in steps]
    slots_held = sum(held) * spec.engine.block_size
    slots_used = sum(step.kv_used_slots for step in steps)
    window_s = length_s(report)
    busy_s = sum(step.duration_s for step in steps) / system.engines
    with_cache = [record for record in ok if record.cached_tokens is not None and record.input_tokens]
    cached = sum(record.cached_tokens or 0 for record in with_cache)
    prompt = sum(record.input_tokens or 0 for record in with_cache)
    preempted = [record.preemptions for record in ok if record.preemptions is not None]
    metrics = {
        "queue_depth": Metric(sum_over_engines(steps, lambda step: step.waiting), "req", n),
        "running": Metric(sum_over_engines(steps, lambda step: step.running), "req", n),
        "kv_use": mean([used / whole for used, whole in zip(held, total, strict=True) if whole], "share"),
        "step_tokens": mean([step.prefill_tokens + step.decode_tokens for step in steps], "tok"),
        "step_time": _distribution([step.duration_s for step in steps], "s"),
        "cache_hit_rate": Metric(cached / prompt if prompt else None, "share", len(with_cache)),
        "acceptance_length": _acceptance_length(ok),
        "preemptions": Metric(float(sum(preempted)) if preempted else None, "count", len(preempted)),
        "kv_fragmentation": Metric(1 - slots_used / slots_held if slots_held else None, "share", n),
        "interconnect_tax": Metric(system.link_share, "share", n),
        "idle_share": Metric(_idle_share(busy_s, window_s) if window_s and n else None, "share", n),
    }
    return metrics | _utilisation_metrics(measure_utilisation(steps, report, spec), n)


def _idle_share(busy_s: float, window_s: float) -> float:
    """Rounded to a billionth: below that it is the sum's rounding and no idling."""
    return round(max(0.0, 1 - busy_s / window_s), 9)


def _acceptance_length(records: Sequence[RequestRecord]) -> Metric:
    """(accepted draft tokens + steps) / steps, where a step is one the target model took for a request's tokens."""
    speculated = [record for record in records if record.draft_tokens]
    accepted = sum(record.accepted_tokens or 0 for record in speculated)
    steps = sum((record.output_tokens or 0) - (record.accepted_tokens or 0) for record in speculated)
    return Metric((accepted + steps) / steps if steps else None, "tok", len(speculated))


def _utilisation_metrics(use: Utilisation, n: int) -> dict[str, Metric]:
    return {
        "mfu": Metric(use.mfu, "share", n),
        "mbu": Metric(use.mbu, "share", n),
        "prefill_compute_wait": Metric(use.prefill_wait, "share", use.prefill_steps),
        "decode_compute_wait": Metric(use.decode_wait, "share", use.decode_steps),
    }
