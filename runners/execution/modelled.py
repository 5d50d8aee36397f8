"""A modelled run: the same scheduler and the same load, on a virtual clock, timed by the cost model of its chips."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runners.chips import ChipRecord, NotModellable, record_for_run, run_facts
from runners.events import Report
from runners.execution.errors import RunFailed
from runners.execution.having_model import model_facts
from runners.execution.journal import Journal
from runners.execution.trace_file import trace_facts, trace_source
from runners.load import virtual
from runners.modelled.fleet_build import build
from runners.modelled.fleet_facts import system_facts
from runners.modelled.shape import ShapeError
from runners.modelled.step_model import CostModelError
from runners.modelled.topology import plan_system
from runners.quality_figures import not_measured
from runners.spec import RunSpec


def execute_modelled(spec: RunSpec, journal: Journal, facts: dict[str, Any], traces_dir: Path | None = None) -> Report:
    """Runs it and gives its Report; adds to `facts`. Raises RunFailed: a model refuses the same thing every time."""
    names = " and ".join(spec.placement.chips(spec.chip_id))
    journal.status("starting", detail=f"cost model of {names}")
    if spec.engine.kind != "builtin":
        raise RunFailed(f"no {spec.engine.kind} engine can be modelled: engine.kind must be builtin here", retry=False)
    if spec.chip is None and not spec.chips:
        raise RunFailed("the run names no chip to model", retry=False)
    try:
        plan = plan_system(spec)
        records = [record_for_run(ChipRecord.model_validate(data), spec.allow_speculative) for data in _records(spec)]
    except (ValidationError, NotModellable, CostModelError, ShapeError) as error:
        raise RunFailed(f"{names} can't be modelled: {error}", retry=False) from error
    system = build(plan, spec.engine)
    facts["model"] = model_facts(spec.model)
    facts.update(trace_facts(spec))
    if spec.workload.kind == "tasks":
        raise RunFailed("workload.kind: a cost model answers no questions; tasks need a measured node", retry=False)
    if spec.quality is not None:
        facts["quality"] = not_measured("quality is measured on a chip; a cost model knows speed alone")
    try:
        result = virtual.run(spec, system, journal.add_all, trace=trace_source(spec, traces_dir))
    except virtual.TooLong as error:
        raise RunFailed(f"{names}: {error}", retry=False) from error
    facts.update(system_facts(plan, system))
    facts.update(records_facts(records))
    return Report(
        outcome="succeeded",
        window_start_s=result.window_start_s,
        window_end_s=result.window_end_s,
        client=result.client,
        facts=facts,
        modelled=True,
    )


def collect_rarely() -> None:
    """For a process that does a modelled run and nothing else. What that makes is freed by reference counts, or lives
    long: to look for cycles as often as usual takes a fifth of the time and finds nothing."""
    gc.set_threshold(100_000, 50, 100)


def records_facts(records: Iterable[ChipRecord]) -> dict[str, Any]:
    """What a run reports of its chips' records: what the figures of the first are of, and the widest band of any
    stand-ins."""
    told = [run_facts(record) for record in records]
    bands = [facts["speculative"] for facts in told if "speculative" in facts]
    if not bands:
        return told[0]
    widest = {
        "fields": [field for band in bands for field in band["fields"]],
        "low_x": min(band["low_x"] for band in bands),
        "high_x": max(band["high_x"] for band in bands),
        "basis": "; ".join(band["basis"] for band in bands),
    }
    return told[0] | {"speculative": widest}


def _records(spec: RunSpec) -> Iterable[dict[str, Any]]:
    """Of the chips that it runs on."""
    return (spec.chips or {spec.chip_id: spec.chip or {}}).values()
