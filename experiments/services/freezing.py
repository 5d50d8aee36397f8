"""Stores trials and runs with what they are frozen to: on submission, and when an experiment plans its next ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.chosen_models import draft_of
from experiments.models import Experiment, Run, Trial
from experiments.provenance import code_revision
from experiments.services.feasibility import Feasible
from experiments.services.traces import hold_traces
from runners.matrix import Cell, PlannedRun
from runners.spec import RunSpec


def store_trials(experiment: Experiment, cells: Sequence[Cell]) -> list[Trial]:
    """A trial for each cell, in their order."""
    return Trial.objects.bulk_create(
        Trial(experiment=experiment, index=cell.index, settings=cell.settings, label=cell.label) for cell in cells
    )


def store_runs(
    experiment: Experiment,
    planned: Sequence[PlannedRun],
    cells: Mapping[int, Cell],
    trials: Mapping[int, Trial],
    found: Feasible,
) -> list[Run]:
    """The planned runs, queued, each with its frozen spec. `cells` and `trials` are by the trial's index. In a
    transaction. Raises SpecError where a trace was removed meanwhile."""
    hold_traces(experiment, [found.traces[one.trial_index] for one in planned if one.trial_index in found.traces])
    runs = Run.objects.bulk_create(
        Run(
            experiment=experiment,
            trial=trials[one.trial_index],
            repeat=one.repeat,
            position=one.position,
            spec={},
        )
        for one in planned
    )
    # A run's spec holds its own id, which the insert has only now given.
    for run, one in zip(runs, planned, strict=True):
        run.spec = _freeze(run, one, cells[one.trial_index], found).model_dump(mode="json")
    Run.objects.bulk_update(runs, ["spec"], batch_size=200)
    return runs


def _freeze(run: Run, planned: PlannedRun, cell: Cell, found: Feasible) -> RunSpec:
    price = cell.spec.cost.usd_per_hour
    draft, models = draft_of(cell.spec), found.models
    return RunSpec(
        run_id=run.pk,
        experiment_id=run.experiment_id,
        trial_index=cell.index,
        repeat=planned.repeat,
        seed=planned.seed,
        settings=cell.settings,
        model=models[cell.spec.model].ref,
        draft=models[draft].ref if draft else None,
        chip_id=cell.spec.chip,
        chip_counts=found.counts[cell.index],
        allow_speculative=cell.spec.allow_speculative,
        engine=cell.spec.engine,
        placement=cell.spec.placement,
        workload=cell.spec.workload,
        trace=found.traces.get(cell.index),
        slo=cell.spec.slo,
        cost=cell.spec.cost,
        quality=cell.spec.quality,
        usd_per_hour=None if price == "node" else price,
        time_limit_s=cell.spec.budget.max_run_seconds,
        code_revision=code_revision(),
    )
