"""llm-d's benchmark report, versions 0.1 and 0.2, as YAML or JSON: figures of one run, without its requests.

The report leaves the meaning of its latencies to the tool that measured: of GuideLLM's, `inter_token_latency` is this
lab's TPOT, and `time_per_output_token` is none of ours; of all others, the names mean what they do here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from runners.interchange.errors import BadFile
from runners.interchange.fields import Fields
from runners.interchange.results import Figure, ForeignFile, ForeignRun, Load, Scalar

MAX_BYTES = 4 << 20
VERSIONS = ("0.1", "0.2")
SECONDS = {"s": 1.0, "ms": 1e-3, "s/token": 1.0, "ms/token": 1e-3}
LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2el": "request_latency",
}
GUIDELLM_LATENCIES = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2el": "request_latency"}
# (our name, theirs in 0.1, theirs in 0.2, unit)
RATES = (
    ("output_throughput", "output_tokens_per_sec", "output_token_rate", "tok/s"),
    ("total_throughput", "total_tokens_per_sec", "total_token_rate", "tok/s"),
    ("request_throughput", "requests_per_sec", "request_rate", "req/s"),
)
OLD_REQUEST_RATE = "requests_rate"


def parse_yaml(path: Path) -> Any:
    """The document of a small YAML file. Raises BadFile."""
    if path.stat().st_size > MAX_BYTES:
        raise BadFile("", f"a YAML file of more than {MAX_BYTES} bytes is no benchmark report")
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise BadFile("", f"is no UTF-8 text: {error.reason}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else ""
        raise BadFile(where, f"is no YAML: {getattr(error, 'problem', None) or error}") from error


def is_llm_d(document: Any) -> bool:
    return isinstance(document, Mapping) and "version" in document and ("metrics" in document or "results" in document)


def read_llm_d(document: Mapping[str, Any]) -> ForeignFile:
    version = str(document.get("version"))
    if not version.startswith(VERSIONS):
        raise BadFile("version", f"{version!r:.20} of the benchmark report is not known", ", ".join(VERSIONS))
    said = Fields(document, "")
    read = _run_0_1 if version.startswith("0.1") else _run_0_2
    return ForeignFile("llm-d", version[:20], lambda: [read(said)])


def _run_0_1(said: Fields) -> ForeignRun:
    scenario, metrics = said.sub("scenario"), said.sub("metrics")
    tool = scenario.sub("load").text("name")
    requests = metrics.sub("requests")
    ok, failed = _counts(requests)
    throughput = metrics.sub("throughput")
    figures = _latencies(metrics.sub("latency"), tool, ok)
    figures |= {
        ours: Figure(old, throughput.number(old), unit, ok) for ours, old, _, unit in RATES if throughput.has(old)
    }
    if metrics.sub("time").has("duration"):
        figures["window"] = Figure("time.duration", metrics.sub("time").number("duration"), "s", ok)
    arguments = scenario.sub("load").sub("args")
    users = arguments.raw("max_concurrency") or arguments.raw("max-concurrency")
    load = _with_lengths(requests, ok + failed, users if isinstance(users, int) else None, None)
    return _run(tool, scenario.sub("model").text("name"), load, figures, failed)


def _run_0_2(said: Fields) -> ForeignRun:
    standard = said.sub("scenario").sub("load").sub("standardized")
    found = said.sub("results").sub("request_performance").sub("aggregate")
    requests = found.sub("requests")
    ok, failed = _counts(requests)
    figures = _latencies(found.sub("latency"), standard.text("tool"), ok)
    throughput = found.sub("throughput")
    for ours, _, new, unit in RATES:
        theirs = OLD_REQUEST_RATE if new == "request_rate" and not throughput.has(new) else new
        if throughput.has(theirs):
            figures[ours] = Figure(theirs, throughput.sub(theirs).number("mean"), unit, ok)
    users = standard.raw("concurrency")
    rate = standard.number("rate_qps")
    load = _with_lengths(requests, ok + failed, users if isinstance(users, int) else None, rate)
    return _run(standard.text("tool"), _model(said), load, figures, failed)


def _run(tool: str, model: str, load: Load, figures: dict[str, Figure], failed: int) -> ForeignRun:
    settings: dict[str, Scalar] = {"load generator": tool} if tool else {}
    if load.max_concurrency:
        settings["max_concurrency"] = load.max_concurrency
    if load.request_rate:
        settings["request_rate"] = load.request_rate
    return ForeignRun(
        label=f"llm-d, {tool}" if tool else "llm-d",
        model=model,
        load=load,
        figures=figures,
        settings=settings,
        failed=failed,
        notes=("a benchmark report has no requests of its own",),
    )


def _counts(requests: Fields) -> tuple[int, int]:
    total = requests.count("total") or 0
    failed = (requests.count("failures") or 0) + (requests.count("incomplete") or 0)
    return max(total - failed, 0), failed


def _with_lengths(requests: Fields, sent: int, users: int | None, rate: float | None) -> Load:
    return Load(
        sent,
        max_concurrency=users,
        request_rate=rate,
        input_tokens=requests.sub("input_length").number("mean"),
        output_tokens=requests.sub("output_length").number("mean"),
    )


def _latencies(latency: Fields, tool: str, ok: int) -> dict[str, Figure]:
    names = GUIDELLM_LATENCIES if tool == "guidellm" else LATENCIES
    return {ours: _latency(latency.sub(theirs), theirs, ok) for ours, theirs in names.items() if latency.has(theirs)}


def _latency(one: Fields, theirs: str, ok: int) -> Figure:
    unit = one.text("units")
    if unit not in SECONDS:
        raise BadFile(one.place("units"), f"{unit!r} is no unit of time", ", ".join(SECONDS))
    factor = SECONDS[unit]
    points = {f"p{p}": value * factor for p in (50, 90, 95, 99) if (value := one.number(f"p{p}")) is not None}
    mean = one.number("mean")
    n = 0 if theirs == "inter_token_latency" else ok
    return Figure(theirs, points.get("p50"), "s", n, None if mean is None else mean * factor, points)


def _model(said: Fields) -> str:
    """The model of the first engine of the stack."""
    stack = said.sub("scenario").raw("stack")
    for place, component in enumerate(stack if isinstance(stack, list) else []):
        name = Fields(component, f"scenario.stack[{place}]").sub("standardized").sub("model").text("name")
        if name:
            return name
    return ""
