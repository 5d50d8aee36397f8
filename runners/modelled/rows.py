"""Published serving results as they are written: which engine, which kind of test and which quantity a row names.

A row is a JSON object with the keys of `Row`. What its numbers mean as work is said in cases.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

Row = Mapping[str, Any]
Quantity = Literal["latency", "rate", "energy", "ttft", "prefill"]

ENGINES = (
    ("MLPerf closed: TensorRT", "TensorRT-LLM (MLPerf)"),
    ("MLPerf", "MLPerf, other"),
    ("TensorRT", "TensorRT-LLM"),
    ("SGLang", "SGLang"),
    ("vLLM", "vLLM"),
    ("llama.cpp", "llama.cpp"),
    ("Neuron", "NeuronX"),
    ("Kog", "Kog"),
    ("built-in", "built-in"),
)
SCENARIOS = (
    ("disaggregated", "disaggregated"),
    ("closed-loop", "closed loop"),
    ("LM-Arena", "steady"),
    ("offline max", "offline"),
    ("offline static", "static"),
    ("fixed batch", "static"),
    ("MLPerf Offline", "mlperf offline"),
    ("MLPerf Server", "mlperf server"),
    ("MLPerf Interactive", "mlperf interactive"),
    ("iso-interactivity", "closed loop"),
    ("open loop", "open loop"),
    ("req/s", "open loop"),
)
REQUIRED = ("id", "chip_id", "precision", "metric", "unit")


class CannotPredict(ValueError):
    """Why a row has no prediction; trying again would change nothing."""

    retry = False


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Raises ValueError that names the file, the row and the key."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(rows, list):
        raise ValueError(f"{path.name}: holds a {type(rows).__name__}; allowed: a list of results")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(f"{path.name}: row {number} is a {type(row).__name__}; allowed: an object")
        missing = [key for key in REQUIRED if not isinstance(row.get(key), str)]
        if missing:
            raise ValueError(f"{path.name}: row {number}: {missing[0]} is {row.get(missing[0])!r}; allowed: a text")
    return rows


def counts_as_accuracy(row: Row) -> bool:
    """Whether the row may be fitted or scored: a claim is plotted only."""
    return row.get("split") != "claim_only" and bool(row.get("value"))


def engine_of(name: str | None) -> str:
    """The engine profile that a published engine goes by."""
    return next((profile for known, profile in ENGINES if known in (name or "")), "other")


def scenario_of(text: str | None) -> str:
    return next((name for known, name in SCENARIOS if known in (text or "")), "single")


def quantity_of(metric: str) -> Quantity:
    """Raises CannotPredict for a metric that is none of the cost model's."""
    if metric.startswith("energy"):
        return "energy"
    if metric.startswith("ttft"):
        return "ttft"
    if metric.startswith("prefill"):
        return "prefill"
    if metric.startswith(("tpot", "itl", "inter_token")):
        return "latency"
    if "throughput" in metric or "tokens_per_s" in metric:
        return "rate"
    raise CannotPredict(f"metric: {metric!r} is not known; allowed: throughput, tokens_per_s, tpot, itl, ttft, energy")
