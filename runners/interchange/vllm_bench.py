"""What `vllm bench serve --save-result` writes, and with `--save-detailed` its requests.

One object: figures beside columns of one value a request (`start_times`, `ttfts`, `itls`, `input_lens`, `output_lens`,
`errors`), which are read side by side. `--append-result` writes one object a line, which is refused: one file, one run.
The field names are those of vLLM 0.19, vllm/benchmarks/serve.py. vLLM keeps no time at which a request was due.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runners.events import MAX_TOKENS, RequestRecord
from runners.interchange.errors import BadFile
from runners.interchange.fields import Fields, count_of, number_of
from runners.interchange.json_stream import JsonFile, Part
from runners.interchange.results import Figure, ForeignFile, ForeignRun, Load, Scalar, Window

NEEDED = ("request_throughput", "duration", "completed", "num_prompts")
"""By these a file is known."""
COLUMNS = ("start_times", "ttfts", "itls", "input_lens", "output_lens", "errors")
LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2el"}
RATES = {
    "request_throughput": ("request_throughput", "req/s"),
    "output_throughput": ("output_throughput", "tok/s"),
    "total_throughput": ("total_token_throughput", "tok/s"),
    "goodput": ("request_goodput", "req/s"),
    "output_tokens": ("total_output_tokens", "tok"),
    "input_tokens": ("total_input_tokens", "tok"),
    "window": ("duration", "s"),
}
MS = 1000.0


def is_vllm(members: dict[str, Part]) -> bool:
    return all(name in members for name in NEEDED)


def read_vllm(file: JsonFile, members: dict[str, Part]) -> ForeignFile:
    return ForeignFile("vllm", "", lambda: [_run(file, members)])


def _run(file: JsonFile, members: dict[str, Part]) -> ForeignRun:
    plain = {name: file.value(part) for name, part in members.items() if not (part.is_array or part.is_object)}
    said = Fields(plain, "")
    completed, sent = said.needed_count("completed"), said.needed_count("num_prompts")
    failed = said.count("failed")
    detailed = all(name in members for name in COLUMNS)
    load = _load(said, completed, sent)
    columns = [members[name] for name in COLUMNS] if detailed else []
    window = _window(file, members["start_times"], said.needed("duration")) if detailed else None
    notes = () if detailed else ("the file has no requests of its own: write it with --save-detailed",)
    return ForeignRun(
        label=said.text("label") or said.text("model_id"),
        model=said.text("model_id"),
        load=load,
        figures=_figures(said, completed),
        settings=_settings(said),
        records=(lambda: _records(file, columns, window)) if window else None,
        window=window,
        failed=failed if failed is not None else max(sent - completed, 0),
        unmeasured=("effective_ttft", "client_wait"),
        modelled=said.raw("modelled") is True,
        notes=notes,
    )


def _load(said: Fields, completed: int, sent: int) -> Load:
    rate, users = said.raw("request_rate"), said.count("max_concurrency")
    inputs, outputs = (_mean(said.number(name), completed) for name in ("total_input_tokens", "total_output_tokens"))
    if rate is None or rate == "inf":
        return Load(sent, max_concurrency=users or max(sent, 1), input_tokens=inputs, output_tokens=outputs)
    per_s, burstiness = number_of(rate, "request_rate"), said.number("burstiness") or 1.0
    return Load(sent, users, per_s, burstiness, inputs, outputs)


def _mean(total: float | None, count: int) -> float | None:
    return total / count if total is not None and count else None


def _settings(said: Fields) -> dict[str, Scalar]:
    settings: dict[str, Scalar] = {}
    for name in ("backend", "request_rate", "max_concurrency", "burstiness"):
        found = said.raw(name)
        if isinstance(found, str | int | float) and found != "":
            settings[name] = found
    return settings


def _figures(said: Fields, completed: int) -> dict[str, Figure]:
    figures = {
        ours: Figure(theirs, said.number(theirs), unit, completed)
        for ours, (theirs, unit) in RATES.items()
        if said.has(theirs)
    }
    for ours, theirs in LATENCIES.items():
        if said.has(f"median_{theirs}_ms") or said.has(f"mean_{theirs}_ms"):
            figures[ours] = _latency(said, theirs, completed)
    return figures


def _latency(said: Fields, theirs: str, completed: int) -> Figure:
    points: dict[str, float] = {}
    for name in said.names():
        if name.startswith("p") and name.endswith(f"_{theirs}_ms") and (value := said.number(name)) is not None:
            points[name.partition("_")[0]] = value / MS
    median, mean = said.number(f"median_{theirs}_ms"), said.number(f"mean_{theirs}_ms")
    if median is not None:
        points["p50"] = median / MS
    # gaps are pooled over requests: how many there are the file does not say
    n = 0 if theirs == "itl" else completed
    return Figure(f"*_{theirs}_ms", points.get("p50"), "s", n, None if mean is None else mean / MS, points)


# Requests


def _window(file: JsonFile, starts: Part, duration_s: float) -> Window | None:
    """From the first request that was sent; vLLM's own window opens a moment before it."""
    first = min((number_of(value, starts.path, least=None) for value in file.values(starts)), default=None)
    return None if first is None else Window(first, first + duration_s)


def _records(file: JsonFile, columns: list[Part], window: Window | None) -> Iterator[RequestRecord]:
    zero = window.start_s if window else 0.0
    walks = [file.values(part) for part in columns]
    index = 0
    while True:
        row = [next(walk, _MISSING) for walk in walks]
        missing = [part.path for part, value in zip(columns, row, strict=True) if value is _MISSING]
        if len(missing) == len(columns):
            return
        if missing:
            raise BadFile(missing[0], f"ends after {index} values, {columns[0].path} and others do not")
        yield _record(index, zero, row)
        index += 1


_MISSING = object()


def _record(index: int, zero: float, row: list[Any]) -> RequestRecord:
    started, ttft, gaps, inputs, outputs, error = row
    sent = number_of(started, f"start_times[{index}]", least=None) - zero
    common: dict[str, Any] = {"index": index, "request_id": f"vllm-{index}", "phase": "measured", "scheduled_s": sent,
                              "sent_s": sent, "input_tokens": count_of(inputs, f"input_lens[{index}]")}  # fmt: skip
    if error or not ttft:
        return RequestRecord(**common, status="error", error=str(error or "no first token")[:500])
    if not isinstance(gaps, list):
        raise BadFile(f"itls[{index}]", "is no list", "a list of seconds")
    first = sent + number_of(ttft, f"ttfts[{index}]")
    times = [first]
    for place, gap in enumerate(gaps[: MAX_TOKENS - 1]):
        times.append(times[-1] + number_of(gap, f"itls[{index}][{place}]"))
    tokens = count_of(outputs, f"output_lens[{index}]")
    return RequestRecord(
        **common,
        first_token_s=first,
        token_times_s=times,
        token_counts=spread(tokens, len(times)),
        finished_s=times[-1],
        output_tokens=tokens,
        status="ok",
    )


def spread(tokens: int, events: int) -> list[int]:
    """How many tokens each stream event carried, where only their sum is known: one each, the rest with the last. Gaps
    pooled over tokens are the same whichever event had them."""
    if events == 0:
        return []
    return [1] * (events - 1) + [max(tokens - events + 1, 1)]
