"""Cells of the shipped examples, run as a modelled node runs them, in the test's own process and without a lab."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments import examples
from runners import shapes
from runners.chips import load_catalog
from runners.document import parse_text
from runners.events import AnyEvent, Report, RequestRecord, Step
from runners.execution.journal import Journal
from runners.execution.modelled import execute_modelled
from runners.matrix import Cell, Plan, plan_experiment
from runners.metrics import Summary, summarize
from runners.spec import RunSpec, Setting, WorkloadSpec
from runners.spool import SpoolWriter

FOLDER = Path(examples.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("[0-9][0-9]-*.yaml"))
MODELLED = [
    name
    for name in NAMES
    if parse_text((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))["nodes"]["labels"] == {"kind": "modelled"}
]
"""Those that need no chip; the others run on a measured node."""
CATALOG = {record.chip_id: record for record in load_catalog()}


@dataclass(frozen=True)
class Result:
    spec: RunSpec
    report: Report
    summary: Summary

    def value(self, name: str) -> float:
        """A figure that the run must have."""
        found = self.summary.metrics[name].value
        assert found is not None, name
        return found


class _Kept(Journal):
    """A journal that also keeps what it wrote."""

    def __init__(self, writer: SpoolWriter) -> None:
        super().__init__(writer)
        self.events: list[AnyEvent] = []

    def add_all(self, events: Iterable[AnyEvent]) -> None:
        told = list(events)
        super().add_all(told)
        self.events += told

    def add(self, *events: AnyEvent) -> None:
        self.add_all(events)


def document(name: str) -> dict[str, Any]:
    return parse_text((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def plan(name: str) -> Plan:
    return plan_experiment(document(name))


def find_cell(name: str, settings: Mapping[str, Setting]) -> Cell:
    """The one cell of an example with these settings among its own."""
    (found,) = [cell for cell in plan(name).cells if settings.items() <= cell.settings.items()]
    return found


def run_spec(cell: Cell, seed: int, **workload: Any) -> RunSpec:
    """What a node gets when it claims a run of that cell, or one of another workload."""
    spec, chip_id = cell.spec, cell.spec.chip if cell.spec.chip != "any" else "h100-sxm"
    draft = spec.engine.speculation.model if spec.engine.speculation.kind == "draft" else None
    return RunSpec(
        run_id=1, experiment_id=1, trial_index=cell.index, repeat=0, seed=seed, settings=cell.settings,
        model=shapes.resolve(spec.model).ref(), draft=shapes.resolve(draft).ref() if draft else None,
        chip_id=chip_id, chip=CATALOG[chip_id].model_dump(mode="json"),
        chips={name: CATALOG[name].model_dump(mode="json") for name in spec.placement.chips(chip_id)},
        allow_speculative=spec.allow_speculative, engine=spec.engine, placement=spec.placement,
        workload=WorkloadSpec.model_validate(spec.workload.model_dump() | workload), slo=spec.slo, cost=spec.cost,
        time_limit_s=spec.budget.max_run_seconds, code_revision="test",
    )  # fmt: skip


def play(spec: RunSpec) -> Result:
    with TemporaryDirectory() as folder:
        journal = _Kept(SpoolWriter(Path(folder) / "1-1.jsonl"))
        report = execute_modelled(spec, journal, {})

    def of(kind: type) -> list[Any]:
        return [event for event in journal.events if isinstance(event, kind)]

    return Result(spec, report, summarize(of(RequestRecord), of(Step), report, spec))


def measure(name: str, settings: Mapping[str, Setting], **workload: Any) -> Result:
    """One cell of an example, with the seed of its first repeat; `workload` changes its load, to be quick."""
    return play(run_spec(find_cell(name, settings), plan(name).runs[0].seed, **workload))
