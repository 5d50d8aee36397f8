"""An engine's /metrics (Prometheus text) as the few figures that a run's samples have. Pure.

Which metric stands for which figure is one table for each engine whose metrics are known; what an engine does not tell
is null, never 0. Series of one metric (several engines behind one endpoint) are added up; shares are averaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^\n]*\})?[ \t]+(\S+)")
STARTED = "process_start_time_seconds"

# Figure → metric, for each engine that is known by its metrics.
KNOWN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "running": ("vllm:num_requests_running",),
        "waiting": ("vllm:num_requests_waiting",),
        "kv_used": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    },
    "sglang": {
        "running": ("sglang:num_running_reqs",),
        "waiting": ("sglang:num_queue_reqs",),
        "kv_used": ("sglang:token_usage",),
    },
    "llamacpp": {
        "running": ("llamacpp:requests_processing",),
        "waiting": ("llamacpp:requests_deferred",),
        "kv_used": ("llamacpp:kv_cache_usage_ratio",),
    },
    "lab": {
        "running": ("lab:num_requests_running",),
        "waiting": ("lab:num_requests_waiting",),
        "kv_used": ("lab:kv_cache_usage_perc",),
    },
}


@dataclass(frozen=True)
class Gauges:
    """What an engine said of itself at one moment; `kv_used` is a share from 0 to 1, `started_s` Unix time. `source` is
    the engine that the metrics are of, `names` the metrics that were read."""

    source: str | None
    running: float | None = None
    waiting: float | None = None
    kv_used: float | None = None
    started_s: float | None = None
    names: tuple[str, ...] = ()


def read_gauges(text: str) -> Gauges:
    """Takes what it knows; of metrics of no known engine nothing but when the process started."""
    series = _series(text.splitlines())
    started = _one(series.get(STARTED))
    for source, figures in KNOWN.items():
        found = {
            figure: (name, series[name])
            for figure, names in figures.items()
            for name in names[::-1]
            if series.get(name)
        }
        if not found:
            continue
        used = found.get("kv_used")
        return Gauges(
            source,
            running=sum(found["running"][1]) if "running" in found else None,
            waiting=sum(found["waiting"][1]) if "waiting" in found else None,
            kv_used=min(sum(used[1]) / len(used[1]), 1.0) if used else None,
            started_s=started,
            names=tuple(name for name, _ in found.values()),
        )
    return Gauges(None, started_s=started)


def _series(lines: Iterable[str]) -> dict[str, list[float]]:
    """Finite values of every metric, whatever their labels."""
    found: dict[str, list[float]] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue  # no sample of this format; the others stand
        if math.isfinite(value) and value >= 0:
            found.setdefault(match[1], []).append(value)
    return found


def _one(values: list[float] | None) -> float | None:
    return min(values) if values else None
