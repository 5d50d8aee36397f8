"""What GuideLLM saves as JSON: a report of several benchmarks, each with its requests by status.

Field names are those of GuideLLM 0.8 (report version 2). Its `inter_token_latency_ms` is this lab's TPOT; its
`time_per_output_token_ms` includes the first token and is no figure of ours. A request states its first and last token
and how many came, not each, so there is no ITL. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from runners.events import RequestRecord
from runners.interchange.errors import BadFile
from runners.interchange.fields import Fields
from runners.interchange.json_stream import JsonFile, Part
from runners.interchange.results import Figure, ForeignFile, ForeignRun, Load, Scalar, Window

# (our name, theirs, factor to our unit, unit); of a rate the mean is the figure, of a latency the median
LATENCIES = (
    ("ttft", "time_to_first_token_ms", 1e-3, "s"),
    ("tpot", "inter_token_latency_ms", 1e-3, "s"),
    ("e2el", "request_latency", 1.0, "s"),
)
RATES = (
    ("request_throughput", "requests_per_second", "req/s"),
    ("concurrency", "request_concurrency", "req"),
    ("output_throughput", "output_tokens_per_second", "tok/s"),
    ("total_throughput", "tokens_per_second", "tok/s"),
)
PERCENTILES = ("p50", "p90", "p95", "p99")
STATUSES: tuple[tuple[str, Literal["ok", "error", "cancelled"]], ...] = (
    ("successful", "ok"),
    ("errored", "error"),
    ("incomplete", "cancelled"),
)
EVENLY = 100.0
"""The burstiness of arrivals at equal gaps, as nearly as a workload states it."""


def is_guidellm(members: dict[str, Part]) -> bool:
    return "benchmarks" in members and ("metadata" in members or "args" in members)


def read_guidellm(file: JsonFile, members: dict[str, Part]) -> ForeignFile:
    told = file.value(members["metadata"]) if "metadata" in members else {}
    version = Fields(told, "metadata").text("guidellm_version")
    return ForeignFile("guidellm", version, lambda: _runs(file, members["benchmarks"]))


def _runs(file: JsonFile, benchmarks: Part) -> Iterator[ForeignRun]:
    for part in file.elements(benchmarks):
        yield _run(file, part)


def _run(file: JsonFile, part: Part) -> ForeignRun:
    members = file.members(part)
    plain = {name: file.value(one) for name, one in members.items() if name in ("config", "start_time", "end_time")}
    said = Fields(plain, part.path)
    lists = _lists(file, members)
    counts = {status: sum(1 for _ in file.elements(one)) for status, one in lists.items()}
    totals = _totals(file, members, part.path) or counts
    ok, failed = totals.get("ok", 0), totals.get("error", 0)
    config = said.sub("config")
    load, name = _load(config, sum(totals.values()))
    window = _window(said)
    # A report may be saved with a sample of its requests: those can't give the figures of them all.
    whole = bool(counts) and counts == totals and window is not None
    return ForeignRun(
        label=name,
        model=config.sub("backend").text("model"),
        load=load,
        figures=_figures(file, members, ok),
        settings=_settings(load, name),
        records=(lambda: _records(file, lists, window, load)) if window is not None and whole else None,
        window=window if whole else None,
        failed=failed,
        unmeasured=() if load.request_rate else ("effective_ttft", "client_wait"),
        unjudged=("no_steady_state",) if name == "trace" else (),
        notes=() if whole else ("the file has not all of its requests: save it without a limit on samples",),
    )


def _lists(file: JsonFile, members: dict[str, Part]) -> dict[str, Part]:
    """The requests by their status here."""
    if "requests" not in members or not members["requests"].is_object:
        return {}
    found = file.members(members["requests"])
    return {ours: found[theirs] for theirs, ours in STATUSES if theirs in found and found[theirs].is_array}


def _totals(file: JsonFile, members: dict[str, Part], where: str) -> dict[str, int]:
    metrics = file.members(members["metrics"]) if "metrics" in members else {}
    if "request_totals" not in metrics:
        return {}
    totals = Fields(file.value(metrics["request_totals"]), f"{where}.metrics.request_totals")
    return {ours: totals.count(theirs) or 0 for theirs, ours in STATUSES if totals.has(theirs)}


def _window(said: Fields) -> Window | None:
    start, end = said.number("start_time"), said.number("end_time")
    return Window(start, end) if start is not None and end is not None and end > start else None


def _load(config: Fields, requests: int) -> tuple[Load, str]:
    strategy = config.sub("strategy")
    kind = strategy.text("type_") or "unknown"
    rate = strategy.number("rate")
    if kind in ("constant", "poisson", "async") and rate:
        burstiness = 1.0 if kind == "poisson" else EVENLY
        return Load(requests, request_rate=rate, burstiness=burstiness), kind
    users = strategy.count("streams") or strategy.count("max_concurrency")
    return Load(requests, max_concurrency=1 if kind == "synchronous" else users), kind


def _settings(load: Load, name: str) -> dict[str, Scalar]:
    settings: dict[str, Scalar] = {"strategy": name}
    if load.request_rate is not None:
        settings["request_rate"] = load.request_rate
    elif load.max_concurrency is not None:
        settings["max_concurrency"] = load.max_concurrency
    return settings


def _figures(file: JsonFile, members: dict[str, Part], ok: int) -> dict[str, Figure]:
    metrics = file.members(members["metrics"]) if "metrics" in members else {}
    figures: dict[str, Figure] = {}
    for ours, theirs, factor, unit in LATENCIES:
        one = _successful(file, metrics, theirs)
        if one is not None:
            figures[ours] = _latency(one, theirs, factor, unit)
    for ours, theirs, unit in RATES:
        one = _successful(file, metrics, theirs)
        if one is not None:
            figures[ours] = Figure(theirs, one.number("mean"), unit, ok)
    return figures


def _successful(file: JsonFile, metrics: dict[str, Part], theirs: str) -> Fields | None:
    if theirs not in metrics or not metrics[theirs].is_object:
        return None
    part = file.members(metrics[theirs]).get("successful")
    return Fields(file.value(part), part.path) if part is not None and part.is_object else None


def _latency(one: Fields, theirs: str, factor: float, unit: str) -> Figure:
    listed = one.sub("percentiles")
    points = {name: value * factor for name in PERCENTILES if (value := listed.number(name)) is not None}
    median, mean = one.number("median"), one.number("mean")
    if median is not None:
        points["p50"] = median * factor
    n = one.count("count") or 0
    return Figure(theirs, points.get("p50"), unit, n, None if mean is None else mean * factor, points)


# Requests


def _records(file: JsonFile, lists: dict[str, Part], window: Window, load: Load) -> Iterator[RequestRecord]:
    index = 0
    for status, part in lists.items():
        for place, value in enumerate(file.values(part)):
            yield _record(index, Fields(value, f"{part.path}[{place}]"), status, window.start_s, load)
            index += 1


def _record(index: int, said: Fields, status: str, zero: float, load: Load) -> RequestRecord:
    timings = said.sub("info").sub("timings")

    def at(name: str) -> float | None:
        found = timings.number(name)
        return None if found is None else found - zero

    sent = next((time for name in ("request_start", "resolve_start") if (time := at(name)) is not None), None)
    if sent is None:
        if status == "ok":
            raise BadFile(timings.place("request_start"), "is missing", "Unix seconds")
        sent = at("resolve_end") or 0.0  # it was never sent
    due = at("targeted_start") if load.request_rate else None
    finished = at("request_end")
    return RequestRecord.model_validate(
        {
            "index": index,
            "request_id": said.text("request_id") or f"guidellm-{index}",
            "phase": "measured",
            "scheduled_s": sent if due is None else due,
            "sent_s": sent,
            "first_token_s": at("first_token_iteration") if status == "ok" else None,
            "finished_s": at("resolve_end") if finished is None else finished,
            "input_tokens": _tokens(said, "prompt_tokens", "input_metrics"),
            "output_tokens": _tokens(said, "output_tokens", "output_metrics"),
            "cached_tokens": said.sub("input_metrics").count("cached_tokens"),
            "status": status,
            "error": None if status == "ok" else _error(said),
        }
    )


def _tokens(said: Fields, name: str, metrics: str) -> int | None:
    """The request's count; where it is not stated, its text tokens."""
    return said.count(name) if said.has(name) else said.sub(metrics).count("text_tokens")


def _error(said: Fields) -> str:
    error: Any = said.sub("info").raw("error")
    return str(error)[:500] if error else "not finished"
