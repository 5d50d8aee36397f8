"""Published serving results as they are written: which engine, which kind of test and which quantity a row names.

A row is a JSON object with the keys of `Row`. What its numbers mean as work is said in cases.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

Row = Mapping[str, Any]
Quantity = Literal["latency", "rate", "energy", "ttft", "prefill", "run_ttft"]
"""`run_ttft` is the first token of a modelled run, whose steps that prefill are not slowed (first_token.py)."""

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
    ("sustained", "offline"),
    ("decode pool", "offline"),
    ("MLPerf Offline", "mlperf offline"),
    ("MLPerf Server", "mlperf server"),
    ("MLPerf Interactive", "mlperf interactive"),
    ("iso-interactivity", "closed loop"),
    ("open loop", "open loop"),
    ("req/s", "open loop"),
)
REQUIRED = ("chip_id", "precision", "metric", "unit")
TEXTS = ("engine", "scenario", "parallelism", "notes", "model_key")
AMOUNTS = {"input_len": 4e6, "output_len": 4e6, "concurrency_or_batch": 1e6, "n_chips": 1e5,
           "params_total_B": 1e6, "params_active_B": 1e6}  # fmt: skip
"""Keys that hold an amount or null, and the most of each: more is a slip of the unit."""
MAY_BE_ZERO = ("input_len", "output_len")


class CannotPredict(ValueError):
    """Why a row has no prediction; trying again would change nothing."""

    retry = False


class ResultsFileError(ValueError):
    """The file holds no results at all, or a row that nothing can be said of; trying again would change nothing."""

    retry = False


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, each with an id; what else is wrong with one is for `check_row` to say.

    Raises ResultsFileError that names the file, the row and the key."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultsFileError(f"{path}: can't be read: {error.strerror}; allowed: a file of results") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ResultsFileError(f"{path.name}: is not JSON: {error}; allowed: a JSON list of results") from error
    if not isinstance(rows, list):
        raise ResultsFileError(f"{path.name}: holds a {type(rows).__name__}; allowed: a list of results")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ResultsFileError(f"{path.name}: row {number} is a {type(row).__name__}; allowed: an object")
        if not isinstance(row.get("id"), str):
            raise ResultsFileError(f"{path.name}: row {number}: id is {row.get('id')!r}; allowed: a text")
    return rows


def check_row(row: Row) -> None:
    """Raises CannotPredict for a key that is missing or holds what it can't."""
    for key in REQUIRED:
        if not isinstance(row.get(key), str):
            raise CannotPredict(f"{key}: is {row.get(key)!r}; allowed: a text")
    for key in TEXTS:
        if not isinstance(row.get(key) or "", str):
            raise CannotPredict(f"{key}: is {row[key]!r}; allowed: a text or null")
    for key, most in AMOUNTS.items():
        value = row.get(key)
        none = key in MAY_BE_ZERO and value == 0
        if value is not None and not none and not _is_amount(value, most):
            least = "from" if key in MAY_BE_ZERO else "above"
            raise CannotPredict(f"{key}: is {value!r}; allowed: a number {least} 0, at most {most:,.0f}, or null")


def _is_amount(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most


def counts_as_accuracy(row: Row) -> bool:
    """Whether the row may be fitted or scored: a claim is plotted only."""
    return row.get("split") != "claim_only" and row.get("value") is not None


def value_of(row: Row) -> float | None:
    """The row's own figure, null where it has none. Raises CannotPredict for one that is no figure."""
    value = row.get("value")
    if value is not None and not _is_amount(value, float("inf")):
        raise CannotPredict(f"value: is {value!r}; allowed: a number above 0, or null")
    return value


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
