"""A modelled run: the same scheduler and the same load, on a virtual clock, timed by the cost model of a chip."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from runners.chips import ChipRecord, NotModellable, record_for_run, refuse_architecture, run_facts
from runners.events import Report
from runners.execution.errors import RunFailed
from runners.execution.journal import Journal
from runners.load import virtual
from runners.modelled.cost import CostModelError
from runners.modelled.executor import build, build_engine
from runners.modelled.fleet import one_engine
from runners.modelled.shape import ShapeError
from runners.spec import RunSpec


def execute_modelled(spec: RunSpec, journal: Journal, facts: dict[str, Any]) -> Report:
    """Runs it and gives its Report; adds to `facts`. Raises RunFailed: a model refuses the same thing every time."""
    journal.status("starting", detail=f"cost model of {spec.chip_id}")
    if spec.chip is None:
        raise RunFailed("the run names no chip to model", retry=False)
    try:
        chip = record_for_run(ChipRecord.model_validate(spec.chip), spec.allow_speculative)
        refuse_architecture(chip, spec.model.shape)
        executor = build(chip, spec.model.shape, spec.engine)
    except (ValidationError, NotModellable, CostModelError, ShapeError) as error:
        raise RunFailed(f"{spec.chip_id} can't be modelled: {error}", retry=False) from error
    facts.update(executor.facts())
    facts.update(run_facts(chip))
    facts["model"] = {"name": spec.model.name, "sha256": spec.model.sha256}
    system = one_engine(build_engine(executor, spec.engine), executor.clock)
    result = virtual.run(spec, system, journal.add_all)
    return Report(
        outcome="succeeded",
        window_start_s=result.window_start_s,
        window_end_s=result.window_end_s,
        client=result.client,
        facts=facts,
        modelled=True,
    )
