"""How a figure is written for a person: three significant digits, its unit, milliseconds only here."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

NAMES: dict[str, str] = {
    "output_throughput": "Output throughput",
    "total_throughput": "Total throughput",
    "request_throughput": "Request throughput",
    "goodput": "Goodput",
    "goodput_share": "Goodput share",
    "token_goodput": "Token goodput",
    "ttft": "TTFT",
    "effective_ttft": "Effective TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "icl": "ICL",
    "e2el": "E2EL",
    "interactivity": "Interactivity",
    "time_to_answer": "Time to answer",
    "answer_throughput": "Answer throughput",
    "thinking_share": "Thinking share",
    "session_time": "Session time",
    "sessions_ok": "Sessions ended well",
    "session_goodput_share": "Session goodput share",
    "queue_wait": "Queue wait",
    "prefill_time": "Prefill time",
    "client_wait": "Client wait",
    "network_time": "Network time",
    "first_sample_time": "First sample time",
    "concurrency": "Concurrency",
    "littles_law_error": "Little’s law error",
    "steady_from": "Steady from",
    "queue_depth": "Queue depth",
    "running": "Running",
    "kv_use": "KV use",
    "kv_fragmentation": "KV fragmentation",
    "step_tokens": "Tokens a step",
    "step_time": "Step time",
    "cache_hit_rate": "Cache hit rate",
    "acceptance_length": "Acceptance length",
    "preemptions": "Preemptions",
    "idle_share": "Idle share",
    "mfu": "MFU",
    "mbu": "MBU",
    "prefill_compute_wait": "Prefill compute wait",
    "decode_compute_wait": "Decode compute wait",
    "output_throughput_per_chip": "Output throughput per chip",
    "output_throughput_per_kw": "Output throughput per kW",
    "output_tokens_per_usd": "Output tokens per $",
    "cost_per_million_output_tokens": "Cost per million output tokens",
    "cost_per_useful_answer": "Cost per useful answer",
    "perplexity": "Perplexity",
    "bits_per_byte": "Bits per byte",
    "perplexity_ratio": "Perplexity over reference",
    "kl_divergence": "KL divergence",
    "top1_agreement": "Top-1 agreement",
    "perplexity_ratio_rescaled": "Perplexity over reference, off the grid",
    "kl_divergence_rescaled": "KL divergence, off the grid",
    "top1_agreement_rescaled": "Top-1 agreement, off the grid",
    "accuracy": "Accuracy",
    "interconnect_tax": "Interconnect tax",
    "mean_power": "Mean power",
    "energy_per_output_token": "Energy per output token",
    "energy_per_million_output_tokens": "Energy per million output tokens",
    "energy_per_request": "Energy per request",
    "energy_per_useful_answer": "Energy per useful answer",
    "useful_answers": "Useful answers",
    "output_tokens": "Output tokens",
    "input_tokens": "Input tokens",
    "requests_ok": "Requests ok",
    "requests_failed": "Requests failed",
    "window": "Measured window",
}


ABOUT: dict[str, str] = {
    "interactivity": "1 / TPOT of each request: how fast one user’s answer grows",
    "client_wait": "from when a request was due to when it was sent: part of the effective TTFT alone",
    "network_time": "from a request’s sending to the runtime’s queue; of a modelled run, the engine’s reading of it",
    "first_sample_time": "from the end of the prefill to the first token at the client, its way back included",
    "steady_from": "how long after the window began the output was steady (MSER-5); none where not by half of it",
    "goodput": "requests that are ok and meet every objective, per second of the window",
    "mfu": "model FLOPs executed, of what the chips could at most while they were busy",
    "mbu": "bytes that must move, of what memory could at most while the chips were busy",
    "output_throughput_per_chip": "output throughput over all chips of the system, those of every pool",
    "output_throughput_per_kw": "output throughput over the mean power of all its chips",
    "output_tokens_per_usd": "output tokens over the price of the window",
    "interconnect_tax": "the share of step time that links between chips took",
    "mean_power": "of all chips of the system, idle ones too",
    "energy_per_output_token": "energy of the window over its output tokens, idle chips included",
    "energy_per_request": "energy of the window over its finished requests",
    "energy_per_useful_answer": "energy of the window over useful answers: finished, in the SLO, right if checked",
    "cost_per_useful_answer": "price of the window over useful answers: finished, in the SLO, right if checked",
}
"""What a metric says, in a few words; those that go without are plain from their names."""


@dataclass(frozen=True)
class Scale:
    """How a metric's stored values turn into shown ones: `shown = stored * factor`, in `unit`."""

    factor: float
    unit: str


def name_of(metric: str) -> str:
    """A metric's name as people write it; the tail's is that of its metric with the percentile."""
    if metric in NAMES:
        return NAMES[metric]
    base, _, percentile = metric.rpartition("_")
    return f"{NAMES[base]} {percentile}" if base in NAMES else metric


def about_of(metric: str) -> str:
    """What it says, in a few words; nothing where that is plain from its name."""
    return ABOUT.get(metric, "")


def scale_for(unit: str, largest: float | None) -> Scale:
    """Seconds below one are shown in ms, below a ms in µs; shares in %, a million joules in MJ. `largest` sets one
    scale for a whole column."""
    if unit == "s" and largest is not None and 0 < abs(largest) < 1:
        return Scale(1000, "ms") if abs(largest) >= 0.001 else Scale(1_000_000, "µs")
    if unit == "J" and largest is not None and abs(largest) >= 1e6:
        return Scale(1e-6, "MJ")
    if unit == "share":
        return Scale(100, "%")
    return Scale(1, unit)


def digits(value: float) -> str:
    """Three significant digits, without an exponent, thousands set apart by a thin space; at most six places."""
    if abs(value) < 0.5e-6:
        return "0"
    if not math.isfinite(value):
        return str(value)
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = round(value, places) if places else float(round(value, 2 - math.floor(math.log10(abs(value)))))
    return f"{rounded:,.{min(places, 6)}f}".replace(",", "\u2009")


def with_sign(value: float) -> str:
    return f"{'+' if value >= 0 else '−'}{digits(abs(value))}"


def shown(value: float | None, unit: str, scale: Scale | None = None) -> str:
    """The figure with its unit; a dash where nothing was measured."""
    if value is None:
        return "–"
    scale = scale or scale_for(unit, value)
    text = digits(value * scale.factor)
    return f"{text}\u00a0{scale.unit}".strip() if scale.unit not in ("count", "") else text


def setting_value(value: Any) -> str:
    """A setting as it stands in the document."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


UNTOLD = ("kind", "policy", "dist")
"""Keys that say nothing without the one above them."""


def settings_label(settings: dict[str, Any]) -> str:
    """A trial's settings in a line, each path by as much of its end as tells it from the others: `weights int8 ·
    decode.chip wse3`."""
    parts = [f"{short_path(path, settings)} {setting_value(value)}" for path, value in settings.items()]
    return " · ".join(parts) or "as written"


def short_path(path: str, paths: Collection[str]) -> str:
    """As much of a path's end as tells it from the others."""
    keys = path.split(".")
    for count in range(2 if keys[-1] in UNTOLD else 1, len(keys)):
        end = ".".join(keys[-count:])
        if not any(other != path and f".{other}".endswith(f".{end}") for other in paths):
            return end
    return path


def model_label(model: Mapping[str, Any]) -> str:
    """A run's model by its name; one that is a shape alone says so."""
    return f"{model['name']} (random weights)" if model.get("random_weights") else str(model["name"])


def duration(seconds: float) -> str:
    """A length of time as people say it: `40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 100:
        return f"{digits(seconds)}\u00a0s" if seconds < 10 else f"{seconds:.0f}\u00a0s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes}\u00a0min"
    large, small, units = (*divmod(minutes, 60), ("h", "min")) if minutes < 2880 else (
        *divmod(round(minutes / 60), 24), ("d", "h"))  # fmt: skip
    return f"{large}\u00a0{units[0]}" + (f" {small}\u00a0{units[1]}" if small else "")


def count(value: float | None) -> str:
    """A large whole number in a few digits: `135 M`, `8 192`, `1.24 B`."""
    if value is None:
        return "–"
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= size:
            return f"{digits(value / size)}\u00a0{letter}"
    return f"{value:,.0f}".replace(",", "\u2009")


def size(num_bytes: float) -> str:
    """A file's size in decimal units, as disks and downloads are told: `98.4 MB`."""
    for unit, bytes_per in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= bytes_per:
            return f"{digits(num_bytes / bytes_per)}\u00a0{unit}"
    return f"{num_bytes:.0f}\u00a0B"
