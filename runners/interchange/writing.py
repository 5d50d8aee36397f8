"""A run's requests as other tools write them: vLLM's detailed bench JSON, AIPerf's records a line each.

Pure: records in pieces in, bytes in pieces out. `records` gives them anew each time; vLLM's file is of columns, so they
are gone through once for each. Only measured requests are written, as these tools keep no warm-up in such files. A
modelled run says so in a field of its own, `modelled`, which these tools don't know and this lab reads again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from runners.events import RequestRecord
from runners.request_figures import chunk_gaps_s, e2el_s, tpot_s, ttft_s

Records = Callable[[], Iterable[RequestRecord]]
MS, NS = 1e3, 1e9
VLLM_LATENCIES = ("ttft", "tpot", "itl", "e2el")
BUFFER = 256


def vllm_bytes(records: Records, about: Mapping[str, Any], metrics: Mapping[str, Mapping[str, Any]]) -> Iterator[bytes]:
    """vLLM 0.19's `--save-detailed`. `about` has `model_id`, `request_rate`, `max_concurrency`, `burstiness`, and
    `modelled` where it is; `metrics` are those of the run's summary."""
    yield json.dumps({**about, **_vllm_figures(metrics)}, allow_nan=False).encode()[:-1]
    for name, value in _COLUMNS.items():
        yield f', "{name}": ['.encode()
        yield from _joined(value(record) for record in records() if record.phase == "measured")
        yield b"]"
    yield b"}\n"


def _vllm_figures(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    def value(name: str) -> Any:
        return metrics.get(name, {}).get("value")

    ok, failed = int(value("requests_ok") or 0), int(value("requests_failed") or 0)
    figures: dict[str, Any] = {
        "num_prompts": ok + failed,
        "duration": value("window"),
        "completed": ok,
        "failed": failed,
        "total_input_tokens": int(value("input_tokens") or 0),
        "total_output_tokens": int(value("output_tokens") or 0),
        "request_throughput": value("request_throughput"),
        "request_goodput": value("goodput"),
        "output_throughput": value("output_throughput"),
        "total_token_throughput": value("total_throughput"),
    }
    for name in VLLM_LATENCIES:
        points = metrics.get(name, {}).get("percentiles", {})
        for percentile, point in points.items():
            key = "median" if percentile == "p50" else percentile
            figures[f"{key}_{name}_ms"] = point["value"] * MS
    return figures


def _ok(record: RequestRecord) -> bool:
    return record.status == "ok"


_COLUMNS: dict[str, Callable[[RequestRecord], Any]] = {
    "input_lens": lambda record: record.input_tokens or 0,
    "output_lens": lambda record: (record.output_tokens or 0) if _ok(record) else 0,
    "start_times": lambda record: record.sent_s,
    "ttfts": lambda record: (ttft_s(record) or 0.0) if _ok(record) else 0.0,
    "itls": lambda record: chunk_gaps_s(record) if _ok(record) else [],
    "generated_texts": lambda record: "",
    "errors": lambda record: "" if _ok(record) else record.error or record.status,
}
"""One value a request. A text that was generated is not kept by this lab."""


def _joined(values: Iterable[Any]) -> Iterator[bytes]:
    """The elements of a JSON list, some at a time."""
    held: list[str] = []
    first = True
    for value in values:
        held.append(json.dumps(value, allow_nan=False))
        if len(held) >= BUFFER:
            yield (("" if first else ", ") + ", ".join(held)).encode()
            held, first = [], False
    if held:
        yield (("" if first else ", ") + ", ".join(held)).encode()


def aiperf_bytes(records: Records, begin_ns: int, *, modelled: bool = False) -> Iterator[bytes]:
    """AIPerf 0.13's `profile_export.jsonl`; `begin_ns` is the Unix time of the run clock's zero."""
    for record in records():
        yield json.dumps(_aiperf_line(record, begin_ns, modelled), allow_nan=False).encode() + b"\n"


def _aiperf_line(record: RequestRecord, begin_ns: int, modelled: bool) -> dict[str, Any]:
    def at(time_s: float | None) -> int | None:
        return None if time_s is None else begin_ns + round(time_s * NS)

    ended = record.finished_s if record.finished_s is not None else record.sent_s
    kind = "warmup" if record.phase == "warmup" else "profiling"
    return {
        "metadata": {
            "session_num": record.index,
            "x_request_id": record.request_id,
            "x_correlation_id": record.session,
            "turn_index": record.turn - 1 if record.turn else None,
            "credit_issued_ns": at(record.scheduled_s),
            "request_start_ns": at(record.sent_s),
            "request_end_ns": at(ended),
            "worker_id": "inference-lab",
            "record_processor_id": "inference-lab",
            "benchmark_phase": kind,
            "was_cancelled": record.status == "cancelled",
            **({"modelled": True} if modelled else {}),
        },
        "metrics": _aiperf_metrics(record) if _ok(record) else {},
        "error": None if _ok(record) else {"type": record.status, "message": record.error or record.status},
    }


def _aiperf_metrics(record: RequestRecord) -> dict[str, Any]:
    seconds = {
        "time_to_first_token": ttft_s(record),
        "request_latency": e2el_s(record),
        "inter_token_latency": tpot_s(record),
    }
    counts = {
        "input_sequence_length": record.input_tokens,
        "output_sequence_length": record.output_tokens,
        "reasoning_token_count": record.thinking_tokens,
        "usage_prompt_cache_read_tokens": record.cached_tokens,
    }
    metrics: dict[str, Any] = {
        name: {"value": value * MS, "unit": "ms"} for name, value in seconds.items() if value is not None
    }
    metrics |= {name: {"value": value, "unit": "tokens"} for name, value in counts.items() if value is not None}
    if gaps := chunk_gaps_s(record):
        metrics["inter_chunk_latency"] = {"value": [gap * MS for gap in gaps], "unit": "ms"}
    return metrics
