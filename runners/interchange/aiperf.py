"""What AIPerf exports: `profile_export.jsonl`, one request a line, and `profile_export_aiperf.json`, the figures.

Field names are those of AIPerf 0.13 (schema 1.4). Its `inter_token_latency` is this lab's TPOT, its
`inter_chunk_latency` the ICL; a record lists its chunk gaps. Times are Unix nanoseconds, whole numbers until
the first request's is taken off, since a float would lose the last digits.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.events import MAX_TOKENS, RequestRecord
from runners.interchange.errors import BadFile
from runners.interchange.fields import Fields, count_of, number_of
from runners.interchange.json_stream import JsonFile, Part
from runners.interchange.lines import json_lines
from runners.interchange.results import Figure, ForeignFile, ForeignRun, Load, Window
from runners.interchange.vllm_bench import spread

NS = 1e9
SECONDS = {"ms": 1e-3, "sec": 1.0, "s": 1.0, "us": 1e-6, "ns": 1e-9}
LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "icl": "inter_chunk_latency",
    "e2el": "request_latency",
}
RATES = {
    "output_throughput": ("output_token_throughput", "tok/s"),
    "total_throughput": ("total_token_throughput", "tok/s"),
    "request_throughput": ("request_throughput", "req/s"),
    "goodput": ("goodput", "req/s"),
    "requests_ok": ("request_count", "req"),
    "output_tokens": ("total_osl", "tok"),
    "input_tokens": ("total_isl", "tok"),
}
SPEED = "output_token_throughput_per_user"
SLOW_TAIL = {"p50": "p50", "p90": "p10", "p95": "p5", "p99": "p1"}
"""The slow end of a speed is its low percentile (METRICS.md), which AIPerf names by itself."""
UNKNOWN_LOAD = ("no_steady_state",)


def is_aiperf_line(first: Mapping[str, Any]) -> bool:
    return isinstance(first.get("metadata"), dict) and "request_start_ns" in first["metadata"] and "metrics" in first


def is_aiperf_summary(members: dict[str, Part]) -> bool:
    return "aiperf_version" in members or ("request_latency" in members and "input_config" in members)


# Requests, a line each


@dataclass
class _Seen:
    """What a first walk over the lines finds."""

    zero_ns: int | None = None
    end_ns: int = 0
    requests: int = 0
    failed: int = 0
    timed: bool = False
    modelled: bool = False
    starts: array[float] = field(default_factory=lambda: array("d"))
    ends: array[float] = field(default_factory=lambda: array("d"))


def read_aiperf_lines(path: Path) -> ForeignFile:
    return ForeignFile("aiperf", "", lambda: [_run_of_lines(path)])


def _run_of_lines(path: Path) -> ForeignRun:
    seen = _look(path)
    zero = seen.zero_ns or 0
    return ForeignRun(
        label="AIPerf records",
        model="",
        load=Load(seen.requests, max_concurrency=_peak(seen)),
        figures={},
        records=lambda: _records(path, zero),
        window=Window(0.0, (seen.end_ns - zero) / NS),
        failed=seen.failed,
        unmeasured=() if seen.timed else ("effective_ttft", "client_wait"),
        unjudged=UNKNOWN_LOAD,
        modelled=seen.modelled,
        notes=("the records do not say how requests were sent: the most at one time is given as the concurrency",),
    )


def _look(path: Path) -> _Seen:
    seen = _Seen()
    for where, line in json_lines(path):
        said = Fields(line, where).sub("metadata")
        start, end = _ns(said, "request_start_ns"), _ns(said, "request_end_ns")
        if _phase(said) == "warmup":
            seen.zero_ns = start if seen.zero_ns is None else seen.zero_ns
            continue
        seen.requests += 1
        seen.failed += bool(line.get("error"))
        seen.timed = seen.timed or said.has("credit_issued_ns")
        seen.modelled = seen.modelled or said.raw("modelled") is True
        seen.zero_ns = start if seen.zero_ns is None or not seen.starts else min(seen.zero_ns, start)
        seen.end_ns = max(seen.end_ns, end)
        seen.starts.append(start / NS)
        seen.ends.append(end / NS)
    if not seen.requests:
        raise BadFile("", "holds no request of the profiling phase")
    return seen


def _peak(seen: _Seen) -> int:
    """Most requests in flight at one time."""
    changes = sorted([(start, 1) for start in seen.starts] + [(end, -1) for end in seen.ends])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _records(path: Path, zero_ns: int) -> Iterator[RequestRecord]:
    for index, (where, line) in enumerate(json_lines(path)):
        yield _record(index, where, line, zero_ns)


def _record(index: int, where: str, line: Mapping[str, Any], zero_ns: int) -> RequestRecord:
    whole = Fields(line, where)
    said, metrics = whole.sub("metadata"), whole.sub("metrics")
    sent = (_ns(said, "request_start_ns") - zero_ns) / NS
    due = (_ns(said, "credit_issued_ns") - zero_ns) / NS if said.has("credit_issued_ns") else sent
    ended = (_ns(said, "request_end_ns") - zero_ns) / NS
    error = whole.sub("error").text("message") if whole.has("error") else ""
    cancelled = said.raw("was_cancelled") is True
    common: dict[str, Any] = {
        "index": index,
        "request_id": said.text("x_request_id") or f"aiperf-{index}",
        "phase": _phase(said),
        "scheduled_s": due,
        "sent_s": sent,
        "input_tokens": _tokens(metrics, "input_sequence_length"),
        "session": said.text("x_correlation_id") or None,
        "turn": (said.count("turn_index") or 0) + 1 if said.has("x_correlation_id") else None,
    }
    if whole.has("error") or cancelled:
        status = "cancelled" if cancelled else "error"
        return RequestRecord(**common, status=status, error=error or status, finished_s=ended)
    latency, ttft = _seconds(metrics, "request_latency"), _seconds(metrics, "time_to_first_token")
    finished = sent + latency if latency is not None else ended
    tokens = _tokens(metrics, "output_sequence_length")
    times = _times(metrics, sent + ttft) if ttft is not None else []
    return RequestRecord(
        **common,
        first_token_s=None if ttft is None else sent + ttft,
        token_times_s=times,
        token_counts=spread(tokens or 0, len(times)),
        finished_s=finished,
        output_tokens=tokens,
        thinking_tokens=_tokens(metrics, "reasoning_token_count"),
        cached_tokens=_tokens(metrics, "usage_prompt_cache_read_tokens"),
        status="ok",
    )


def _phase(said: Fields) -> str:
    return "warmup" if (said.text("phase_kind") or said.text("benchmark_phase")) == "warmup" else "measured"


def _ns(said: Fields, name: str) -> int:
    """A whole number of nanoseconds."""
    value = said.raw(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise BadFile(said.place(name), f"{value!r:.40} is no time in ns", "a whole number")
    return value


def _times(metrics: Fields, first_s: float) -> list[float]:
    """When each chunk came; none where the record does not list the gaps."""
    gaps = metrics.sub("inter_chunk_latency")
    listed = gaps.raw("value")
    if not isinstance(listed, list):
        return []
    factor = _factor(gaps)
    times = [first_s]
    for place, gap in enumerate(listed[: MAX_TOKENS - 1]):
        times.append(times[-1] + number_of(gap, f"{gaps.place('value')}[{place}]") * factor)
    return times


def _seconds(metrics: Fields, name: str) -> float | None:
    if not metrics.has(name):
        return None
    one = metrics.sub(name)
    return one.needed("value") * _factor(one)


def _factor(one: Fields) -> float:
    unit = one.text("unit")
    if unit not in SECONDS:
        raise BadFile(one.place("unit"), f"{unit!r} is no unit of time", ", ".join(SECONDS))
    return SECONDS[unit]


def _tokens(metrics: Fields, name: str) -> int | None:
    return count_of(metrics.sub(name).raw("value"), metrics.place(name)) if metrics.has(name) else None


# Figures


def read_aiperf_summary(file: JsonFile, members: dict[str, Part]) -> ForeignFile:
    version = file.value(members["aiperf_version"]) if "aiperf_version" in members else ""
    return ForeignFile("aiperf", version if isinstance(version, str) else "", lambda: [_run_of_summary(file, members)])


def _run_of_summary(file: JsonFile, members: dict[str, Part]) -> ForeignRun:
    wanted = {*LATENCIES.values(), *(theirs for theirs, _ in RATES.values()), SPEED, "benchmark_duration",
              "error_request_count", "input_config", "is_complete"}  # fmt: skip
    said = Fields({name: file.value(part) for name, part in members.items() if name in wanted}, "")
    ok = int(said.sub("request_count").number("avg") or 0)
    failed = int(said.sub("error_request_count").number("avg") or 0)
    figures = {ours: _latency(said, theirs, ok) for ours, theirs in LATENCIES.items() if said.has(theirs)}
    figures |= {
        ours: Figure(theirs, said.sub(theirs).number("avg"), unit, ok)
        for ours, (theirs, unit) in RATES.items()
        if said.has(theirs)
    }
    if said.has(SPEED):
        figures["interactivity"] = _speed(said.sub(SPEED), ok)
    if said.has("benchmark_duration"):
        duration = said.sub("benchmark_duration")
        figures["window"] = Figure("benchmark_duration", duration.needed("avg") * _factor(duration), "s", ok)
    notes = ["the file has no requests of its own: those are in profile_export.jsonl"]
    if said.raw("is_complete") is False:
        notes.append("AIPerf says that the run did not come to its end")
    config = said.raw("input_config")
    return ForeignRun(
        label="AIPerf summary",
        model=_model(config),
        load=_load(config, ok + failed),
        figures=figures,
        failed=failed,
        notes=tuple(notes),
    )


def _latency(said: Fields, theirs: str, ok: int) -> Figure:
    one = said.sub(theirs)
    factor = _factor(one)
    points = {f"p{p}": value * factor for p in (50, 90, 95, 99) if (value := one.number(f"p{p}")) is not None}
    mean = one.number("avg")
    n = one.count("count") or (0 if theirs == "inter_chunk_latency" else ok)
    return Figure(theirs, points.get("p50"), "s", n, None if mean is None else mean * factor, points)


def _speed(one: Fields, ok: int) -> Figure:
    points = {ours: value for ours, theirs in SLOW_TAIL.items() if (value := one.number(theirs)) is not None}
    return Figure(SPEED, points.get("p50"), "tok/s", one.count("count") or ok, one.number("avg"), points)


def _model(config: Any) -> str:
    """The first model of the run's configuration, which has had two shapes."""
    for path in (("models", "items", 0, "name"), ("endpoint", "model_names", 0), ("models", 0, "name"), ("model",)):
        found = _dig(config, path)
        if isinstance(found, str):
            return found[:200]
    return ""


def _load(config: Any, requests: int) -> Load:
    phases = _dig(config, ("phases",))
    last = phases[-1] if isinstance(phases, list) and phases else _dig(config, ("loadgen",))
    said = Fields(last if isinstance(last, dict) else {}, "input_config")
    rate = said.number("rate") or said.number("request_rate")
    if rate:
        return Load(requests, request_rate=rate)
    return Load(requests, max_concurrency=said.count("concurrency"))


def _dig(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value
