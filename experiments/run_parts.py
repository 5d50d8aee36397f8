"""The parts of a run that have figures of their own, classes of traffic and stages, as rows of one table each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runners.display import name_of

PARTS_SHOWN = ("ttft", "tpot", "e2el", "time_to_answer", "output_throughput", "request_throughput", "goodput_share")
PERCENTILE = "p95"

Table = dict[str, Any]


def part_tables(summary: Mapping[str, Any], workload: Mapping[str, Any]) -> list[Table]:
    """A table of the classes and one of the stages, where the run has such: what they are called, the columns that any
    row has a value for, and the rows. Latencies are medians, with the 95th percentile beside them."""
    classes = summary.get("classes") or {}
    stages = summary.get("stages") or []
    said = {one["name"]: one for one in workload.get("classes") or ()}
    tables = [
        _table("Classes of traffic", "Class", "each held to its own objective", [
            (name, _about_class(said.get(name, {})), metrics) for name, metrics in classes.items()
        ]),
        _table("Stages", "Stage", "latencies of what was due in each, throughput of what ended in it", [
            (f"{place}", _about_stage(stage), stage["metrics"]) for place, stage in enumerate(stages, start=1)
        ]),
    ]  # fmt: skip
    return [table for table in tables if table["rows"]]


def _about_class(said: Mapping[str, Any]) -> str:
    if not said:
        return ""
    priority = said.get("priority") or 0
    return f"{said['share'] * 100:.3g} % of the traffic" + (f", priority {priority}" if priority else "")


def _about_stage(stage: Mapping[str, Any]) -> str:
    level, lasts_s = stage["level"], stage["end_s"] - stage["start_s"]
    way = "ramping to" if stage["ramp"] == "linear" else "at"
    return f"{lasts_s:g} s {way} {level:g} {stage['unit']}"


def _table(title: str, of: str, note: str, parts: Sequence[tuple[str, str, Mapping[str, Any]]]) -> Table:
    shown = [
        name for name in PARTS_SHOWN
        if any((metrics.get(name) or {}).get("value") is not None for _, _, metrics in parts)
    ]  # fmt: skip
    return {
        "title": title,
        "of": of,
        "note": note,
        "columns": [name_of(name) for name in shown],
        "rows": [
            {
                "label": label,
                "about": about,
                "ok": metrics["requests_ok"]["value"],
                "failed": metrics["requests_failed"]["value"],
                "cells": [_cell(metrics.get(name)) for name in shown],
            }
            for label, about, metrics in parts
        ],
    }


def _cell(metric: Mapping[str, Any] | None) -> dict[str, Any]:
    tail = (metric or {}).get("percentiles", {}).get(PERCENTILE)
    return {
        "value": (metric or {}).get("value"),
        "unit": (metric or {}).get("unit", ""),
        "n": (metric or {}).get("n", 0),
        "tail": tail["value"] if tail else None,
        "few": bool(tail) and not tail["enough"],
    }
