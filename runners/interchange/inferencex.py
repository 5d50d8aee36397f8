"""Rows of InferenceX (InferenceMAX): one object for each point of its curves, in a list, a line each, or alone.

Fields as its aggregation writes them: seconds without a unit in the name, rates for one GPU, and `*_intvty`, which is
1000 / TPOT in ms. A row's throughput is that of its GPUs, which it counts by `tp` where it is not disaggregated. Rows
say nothing of how many requests they rest on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runners.interchange.fields import Fields
from runners.interchange.results import Figure, ForeignFile, ForeignRun, Load, Scalar

LATENCIES = ("ttft", "tpot", "itl", "e2el")
PERCENTILES = ("p90", "p95", "p99")
SETTINGS = ("hw", "framework", "precision", "tp", "ep", "dp_attention", "conc", "isl", "osl", "mtp", "spec_decoding")

Rows = Callable[[], Iterator[tuple[str, Any]]]


def is_inferencex(row: Any) -> bool:
    return isinstance(row, Mapping) and {"hw", "conc", "tput_per_gpu"} <= row.keys()


def read_inferencex(rows: Rows) -> ForeignFile:
    """`rows` gives (place, row) of every row, each time anew."""
    return ForeignFile("inferencex", "", lambda: (_run(Fields(row, where)) for where, row in rows()))


def _run(row: Fields) -> ForeignRun:
    settings: dict[str, Scalar] = {}
    for name in SETTINGS:
        found = row.raw(name)
        if isinstance(found, str | int | float) and found != "":
            settings[name] = found[:100] if isinstance(found, str) else found
    users = row.needed_count("conc")
    model = row.text("model")
    return ForeignRun(
        label=" ".join(str(settings[name]) for name in ("hw", "framework", "precision") if name in settings),
        model=model,
        load=Load(0, max_concurrency=users, input_tokens=row.number("isl"), output_tokens=row.number("osl")),
        figures=_figures(row),
        settings=settings,
        notes=("a row has no requests of its own, nor does it say how many it rests on",),
    )


def _figures(row: Fields) -> dict[str, Figure]:
    figures = {name: _latency(row, name, "s") for name in LATENCIES if row.has(f"median_{name}")}
    if row.has("median_intvty"):
        figures["interactivity"] = _latency(row, "intvty", "tok/s")
    if row.has("output_tput_per_gpu"):
        per_gpu = row.needed("output_tput_per_gpu")
        figures["output_throughput_per_chip"] = Figure("output_tput_per_gpu", per_gpu, "tok/s/chip")
    gpus = None if row.raw("disagg") in (True, "true") else row.count("tp")
    if gpus:
        for ours, theirs in (("output_throughput", "output_tput_per_gpu"), ("total_throughput", "tput_per_gpu")):
            if row.has(theirs):
                figures[ours] = Figure(f"{theirs} × tp", row.needed(theirs) * gpus, "tok/s")
    return figures


def _latency(row: Fields, name: str, unit: str) -> Figure:
    points = {p: value for p in PERCENTILES if (value := row.number(f"{p}_{name}")) is not None}
    points["p50"] = row.needed(f"median_{name}")
    return Figure(f"*_{name}", points["p50"], unit, 0, row.number(f"mean_{name}"), points)
