"""The definitions of METRICS.md as code: the records of one run in, its figures and its validity out.

Pure: no clock, no storage. A figure that was not measured is None, never 0; each says how many samples it rests on.
What makes a run invalid is in `runners.validity`, what its engines did in `runners.runtime_figures`; bytes and FLOPs of
a step are in `runners.roofline`, chips, links, power and price of a system in `runners.system_figures`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runners.cost_figures import ENERGY_UNITS, PRICE_UNITS, Output, energy_figures, price_figures
from runners.events import Report, RequestRecord, Step
from runners.metric import Metric, distribution, slow_tail
from runners.objectives import Measure, has_objectives, is_good, run_slo_met
from runners.quality_figures import RESCALED_METRICS, TEXT_METRICS, QualityFacts, quality_figures, read_quality
from runners.request_figures import (
    chunk_gaps_s,
    e2el_s,
    effective_ttft_s,
    interactivity,
    token_gaps_s,
    tpot_s,
    ttft_s,
)
from runners.runtime_figures import runtime_figures
from runners.session_figures import EndedSession, ended_sessions
from runners.spec import RunSpec
from runners.system_figures import SystemFigures, system_figures
from runners.thinking_figures import count_thinking, time_to_answer_s
from runners.traffic_parts import FIGURES, RATES, records_by_class, stages_of
from runners.transient import find_transient
from runners.ttft_parts import mean_parts, part_values
from runners.validity import Reason, find_reasons
from runners.window import Window, begins_in, length_s, window_of


def _as_json(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    return {name: metric.as_json() for name, metric in metrics.items()}


@dataclass(frozen=True)
class StageSummary:
    """One stage of the load: its time on the run's clock, the level that it ends at, the figures of what it sent."""

    start_s: float
    end_s: float
    level: float
    unit: str
    ramp: str
    metrics: dict[str, Metric]

    def as_json(self) -> dict[str, Any]:
        told = {"start_s": self.start_s, "end_s": self.end_s, "level": self.level, "unit": self.unit, "ramp": self.ramp}
        return {**told, "metrics": _as_json(self.metrics)}


@dataclass(frozen=True)
class Summary:
    """`latencies` are the values behind the latency figures (see `latency_values`); they are no part of the JSON.
    `ttft_parts` are the mean parts of TTFT (see `runners.ttft_parts`); `energy_source` says how the chips' power is
    known: rapl, nvml, amdsmi, modelled, or assumed. `classes` and `stages` have the figures of the parts of the load,
    where it has such (see `runners.traffic_parts`), `quality` what was measured of its answers."""

    metrics: dict[str, Metric]
    reasons: tuple[Reason, ...]
    modelled: bool
    latencies: dict[str, list[float]] = field(default_factory=dict)
    ttft_parts: dict[str, Any] | None = None
    energy_source: str | None = None
    classes: dict[str, dict[str, Metric]] = field(default_factory=dict)
    stages: tuple[StageSummary, ...] = ()
    quality: QualityFacts | None = None

    @property
    def valid(self) -> bool:
        return not self.reasons

    def as_json(self) -> dict[str, Any]:
        return {
            "metrics": _as_json(self.metrics),
            "valid": self.valid,
            "reasons": [reason.as_json() for reason in self.reasons],
            "modelled": self.modelled,
            "ttft_parts": self.ttft_parts,
            "energy_source": self.energy_source,
            "classes": {name: _as_json(metrics) for name, metrics in self.classes.items()},
            "stages": [stage.as_json() for stage in self.stages],
            "quality": None if self.quality is None else self.quality.model_dump(mode="json"),
        }


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
        **runtime_figures(measured, inside, report, spec, system),
        **_quality_metrics(report, spec),
        **_cost_metrics(measured, report, spec, system),
        "steady_from": _steady_from(measured, window),
    }
    reasons = find_reasons(requests, inside, report, spec, attempt=attempt)
    parts = mean_parts([record for record in measured if record.status == "ok"])
    classes = {
        name: _part_metrics(records, report, spec, system) for name, records in records_by_class(measured, spec).items()
    }
    stages = tuple(_stage_summaries(measured, report, spec, system))
    return Summary(
        metrics,
        tuple(reasons),
        report.modelled,
        latencies,
        parts,
        system.energy_source,
        classes,
        stages,
        read_quality(report),
    )


def _steady_from(measured: Sequence[RequestRecord], window: Window | None) -> Metric:
    """Seconds after the window's start; of as many stream events with tokens."""
    found = find_transient(measured, window) if window is not None else None
    return Metric(None, "s", 0) if found is None else Metric(found.ends_s, "s", found.events)


def _part_metrics(
    records: Sequence[RequestRecord], report: Report, spec: RunSpec, system: SystemFigures
) -> dict[str, Metric]:
    found = _latency_metrics(latency_values(records, spec)) | _rate_metrics(records, report, spec, system)
    return {name: found[name] for name in FIGURES if name in found}


def _stage_summaries(
    measured: Sequence[RequestRecord], report: Report, spec: RunSpec, system: SystemFigures
) -> Iterator[StageSummary]:
    for stage in stages_of(measured, window_of(report), spec):
        start_s, end_s = stage.window
        within = report.model_copy(update={"window_start_s": start_s, "window_end_s": end_s})
        ended = _part_metrics(stage.ended, within, spec, system)
        metrics = _part_metrics(stage.records, within, spec, system) | {name: ended[name] for name in RATES}
        yield StageSummary(start_s, end_s, stage.level, stage.unit, stage.ramp, metrics)


# Per run


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
    if spec.workload.has_sessions:
        values["session_time"] = [one.time_s for one in _sessions(requests, spec) if one.time_s is not None]
    if spec.workload.thinking is not None:
        values["time_to_answer"] = over(time_to_answer_s)
    if spec.workload.is_open:
        values["effective_ttft"] = over(effective_ttft_s)
    return values


def _latency_metrics(values: Mapping[str, Sequence[float]]) -> dict[str, Metric]:
    units = {"interactivity": "tok/s"}
    metrics = {name: distribution(found, units.get(name, "s")) for name, found in values.items()}
    return metrics | {"interactivity": slow_tail(metrics["interactivity"], values["interactivity"])}


def _difference(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier


def _rate_metrics(
    measured: Sequence[RequestRecord], report: Report, spec: RunSpec, system: SystemFigures
) -> dict[str, Metric]:
    ok = [record for record in measured if record.status == "ok"]
    window_s = length_s(report)
    outputs = sum(record.output_tokens or 0 for record in ok)
    inputs = sum(record.input_tokens or 0 for record in ok)
    good = [record for record in ok if is_good(record, spec)]
    has_slo = has_objectives(spec)
    n = len(ok)

    def rate(count: float, unit: str) -> Metric:
        return Metric(count / window_s if window_s else None, unit, n)

    metrics = {
        "output_throughput": rate(outputs, "tok/s"),
        "total_throughput": rate(inputs + outputs, "tok/s"),
        "request_throughput": rate(n, "req/s"),
        "output_throughput_per_chip": rate(outputs / system.chips, "tok/s/chip"),
        "goodput": rate(len(good), "req/s") if has_slo else Metric(None, "req/s", n),
        "goodput_share": Metric(len(good) / len(measured) if has_slo and measured else None, "share", len(measured)),
        "token_goodput": (
            rate(sum(record.output_tokens or 0 for record in good), "tok/s") if has_slo else Metric(None, "tok/s", n)
        ),
        "slo_met": Metric(None if (met := run_slo_met(measured, spec)) is None else float(met), "0 or 1", n),
        "output_tokens": Metric(float(outputs), "tok", n),
        "input_tokens": Metric(float(inputs), "tok", n),
        "requests_ok": Metric(float(n), "req", len(measured)),
        "requests_failed": Metric(float(len(measured) - n), "req", len(measured)),
        "window": Metric(window_s, "s", n),
        **_session_metrics(measured, spec),
    }
    if spec.workload.thinking is not None:
        thinking = count_thinking(ok)
        metrics["answer_throughput"] = rate(outputs - thinking, "tok/s")
        metrics["thinking_share"] = Metric(thinking / outputs if outputs else None, "share", n)
    return metrics | _concurrency_metrics(measured, report)


def _sessions(requests: Sequence[RequestRecord], spec: RunSpec) -> tuple[EndedSession, ...]:
    measured = [record for record in requests if record.phase == "measured"]
    return ended_sessions(measured, lambda record: is_good(record, spec))


def _session_metrics(measured: Sequence[RequestRecord], spec: RunSpec) -> dict[str, Metric]:
    """How many sessions ended well, and the share of the ended ones in which every request met its objective."""
    if not spec.workload.has_sessions:
        return {}
    ended = _sessions(measured, spec)
    useful = sum(one.useful for one in ended) / len(ended) if ended and has_objectives(spec) else None
    return {
        "sessions_ok": Metric(float(sum(one.time_s is not None for one in ended)), "sessions", len(ended)),
        "session_goodput_share": Metric(useful, "share", len(ended)),
    }


def useful_answers(records: Sequence[RequestRecord], spec: RunSpec) -> int | None:
    """Of finished requests those that met the SLO and, where answers were checked, were right; None where neither is
    asked of any."""
    checked = any(record.correct is not None for record in records)
    if not checked and not has_objectives(spec):
        return None
    return sum(record.correct is not False and is_good(record, spec) for record in records)


def _quality_metrics(report: Report, spec: RunSpec) -> dict[str, Metric]:
    """Of a run whose quality was asked for; `n` counts windows of the text, or questions."""
    if spec.quality is None:
        return {}
    names = [f"{name}_rescaled" for name in RESCALED_METRICS]
    units = (
        TEXT_METRICS | {name: TEXT_METRICS[name.removesuffix("_rescaled")] for name in names} | {"accuracy": "share"}
    )
    figures = quality_figures(facts) if (facts := read_quality(report)) else {}
    return {
        name: Metric(figures[name][0].value, unit, figures[name][0].n) if name in figures else Metric(None, unit, 0)
        for name, unit in units.items()
    }


def _cost_metrics(
    measured: Sequence[RequestRecord], report: Report, spec: RunSpec, system: SystemFigures
) -> dict[str, Metric]:
    """Price and energy of the window over what came out of it."""
    ok = [record for record in measured if record.status == "ok"]
    useful = useful_answers(ok, spec)
    output = Output(length_s(report), sum(record.output_tokens or 0 for record in ok), len(ok), useful)
    figures = price_figures(output, system.usd_per_hour) | energy_figures(output, system.energy_j)
    units = PRICE_UNITS | ENERGY_UNITS
    costs = {name: Metric(value, units[name], len(ok)) for name, value in figures.items()}
    return costs | {"useful_answers": Metric(None if useful is None else float(useful), "req", len(ok))}


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
