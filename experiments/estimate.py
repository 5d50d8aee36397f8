"""How long an experiment would take, from how long runs like its own have taken. Says what it rests on, or nothing.

A past run is taken apart into what it does once (loading, warming up, reporting) and its measured window; the window is
scaled by the tokens to be produced. Of the past runs those most like the planned one speak for it. This estimates; it
limits nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models.fields.json import KeyTextTransform, KeyTransform
from pydantic import ValidationError

from experiments.chosen_models import name_of
from experiments.models import Run, RunState
from experiments.search.planner import most_runs_of
from labsite.accounts.models import Project
from runners.matrix import Plan
from runners.spec import (
    ClosedArrival,
    EngineSpec,
    ExperimentSpec,
    FixedLen,
    LengthSpec,
    LognormalLen,
    PlacementSpec,
    RecordedArrival,
    SpeculationSpec,
    StagedArrival,
    TraceRef,
    WorkloadSpec,
)

LOOKED_AT = 200
SPEAKING = 30


@dataclass(frozen=True)
class Settings:
    """What decides the speed most: weights, the batch's bound, how many requests there are at once or a second, and the
    system: where engines lie, and how they draft."""

    weights: str
    max_num_seqs: int
    load: tuple[str, float]
    system: tuple[PlacementSpec, SpeculationSpec]

    def is_like(self, other: Settings) -> bool:
        return self.is_near(other) and self.system == other.system

    def is_near(self, other: Settings) -> bool:
        return (self.weights, self.load) == (other.weights, other.load)


@dataclass(frozen=True)
class PastRun:
    """A run that succeeded: what it was, and its seconds from start to end and in the measured window."""

    model: str
    modelled: bool
    node: str
    settings: Settings
    tokens: float
    window_s: float
    whole_s: float


@dataclass(frozen=True)
class Estimate:
    """Seconds from the first run's start to the last one's end. `low` and `high` are the quartiles of the past runs."""

    seconds: float
    low: float
    high: float
    basis: str


@dataclass(frozen=True)
class Likeness:
    """One way in which a past run may resemble a planned one, the closest first."""

    words: str
    holds: Callable[[PastRun, ExperimentSpec], bool]


LIKENESSES = (
    Likeness("with the same settings and load", lambda past, cell: past.settings == _settings(cell)),
    Likeness("with the same weights, load and placement", lambda past, cell: past.settings.is_like(_settings(cell))),
    Likeness("with the same weights and load", lambda past, cell: past.settings.is_near(_settings(cell))),
    Likeness("under other loads", lambda past, cell: True),
)


def estimate(
    plan: Plan,
    past: Sequence[PastRun],
    modelled: bool,
    nodes: int,
    traces: Mapping[int, TraceRef] | None = None,
) -> Estimate | None:
    """The estimate for the plan's runs, spread over `nodes` nodes; None where no past run resembles them. `traces` are
    what the plan's cells replay, by their index."""
    sums = [0.0, 0.0, 0.0]
    spoke: set[int] = set()
    farthest = 0
    per_cell = {}
    for cell in plan.cells:
        found = _closest(cell.spec, past, modelled)
        if found is None:
            return None
        level, alike = found
        farthest = max(farthest, level)
        spoke.update(id(one) for one in alike)
        per_cell[cell.index] = _quartiles(
            [_seconds(one, cell.spec.workload, (traces or {}).get(cell.index)) for one in alike]
        )
    most = most_runs_of(plan)
    # in the longest case, and those of a search shared out evenly over what its document was checked at
    per_trial = most / len(plan.cells)
    for quartiles in per_cell.values():
        for place, seconds in enumerate(quartiles):
            sums[place] += seconds * per_trial
    # All runs of one repeat stay on one node; those of a search wait for each other.
    repeats = max(1, plan.spec.most_repeats)
    at_once = max(1, min(nodes, repeats))
    low, middle, high = (total / repeats * math.ceil(repeats / at_once) for total in sums)
    models = ", ".join(sorted({name_of(cell.spec.model) for cell in plan.cells}))
    kind = "modelled" if modelled else "measured"
    count = f"{len(spoke)} past run{'s' if len(spoke) != 1 else ''}"
    over = f", over {at_once} nodes at once" if at_once > 1 else ""
    over += f", should all of up to {most} runs be needed" if most != len(plan.runs) else ""
    return Estimate(middle, low, high, f"{count} of {models} on {kind} nodes {LIKENESSES[farthest].words}{over}")


def past_runs(project: Project) -> list[PastRun]:
    """The project's latest runs that succeeded. One query, of a few figures of each."""
    done = Run.objects.filter(
        experiment__project=project, state=RunState.SUCCEEDED, started_at__isnull=False, ended_at__isnull=False
    )
    rows = done.order_by("-id").values(
        "started_at",
        "ended_at",
        "final_attempt__node__slug",
        "final_attempt__node__kind",
        model=KeyTextTransform("name", KeyTransform("model", "spec")),
        engine=KeyTransform("engine", "spec"),
        placement=KeyTransform("placement", "spec"),
        workload=KeyTransform("workload", "spec"),
        trace=KeyTransform("trace", "spec"),
        window=KeyTransform("value", KeyTransform("window", KeyTransform("metrics", "summary"))),
    )
    return list(_read(dict(row) for row in rows[:LOOKED_AT]))


def _read(rows: Iterable[dict[str, Any]]) -> Iterable[PastRun]:
    for row in rows:
        try:
            workload = WorkloadSpec.model_validate(row["workload"])
            trace = TraceRef.model_validate(row["trace"]) if row["trace"] else None
            settings = _load(
                EngineSpec.model_validate(row["engine"]), PlacementSpec.model_validate(row["placement"]), workload
            )
        except ValidationError:  # of a version whose documents were others
            continue
        if not row["window"] or not row["final_attempt__node__slug"]:
            continue
        yield PastRun(
            model=row["model"],
            modelled=row["final_attempt__node__kind"] == "modelled",
            node=row["final_attempt__node__slug"],
            settings=settings,
            tokens=_tokens(workload, trace),
            window_s=row["window"],
            whole_s=(row["ended_at"] - row["started_at"]).total_seconds(),
        )


def _settings(cell: ExperimentSpec) -> Settings:
    return _load(cell.engine, cell.placement, cell.workload)


def _load(engine: EngineSpec, placement: PlacementSpec, workload: WorkloadSpec) -> Settings:
    load = (workload.arrival.kind, _pressure(workload))
    return Settings(engine.weights, engine.max_num_seqs, load, (placement, engine.speculation))


def _pressure(workload: WorkloadSpec) -> float:
    """Users, requests per second, or how many times as fast as it was recorded."""
    arrival = workload.arrival
    if isinstance(arrival, RecordedArrival):
        return 1.0 / workload.trace.time_scale if workload.trace else 1.0
    if isinstance(arrival, StagedArrival):
        return arrival.highest
    return float(arrival.max_concurrency if isinstance(arrival, ClosedArrival) else arrival.request_rate)


def _closest(cell: ExperimentSpec, past: Sequence[PastRun], modelled: bool) -> tuple[int, list[PastRun]] | None:
    name = name_of(cell.model)
    same = [one for one in past if one.model == name and one.modelled is modelled]
    if cell.nodes.names:
        same = [one for one in same if one.node in cell.nodes.names] or same
    for level, likeness in enumerate(LIKENESSES):
        alike = [one for one in same if likeness.holds(one, cell)]
        if alike:
            return level, alike[:SPEAKING]
    return None


def _seconds(past: PastRun, workload: WorkloadSpec, trace: TraceRef | None) -> float:
    once = max(0.0, past.whole_s - past.window_s)
    if past.modelled and workload.lasts_s is None:
        return past.whole_s * _tokens(workload, trace) / past.tokens
    lasts_s = _lasts_s(workload, trace)
    if lasts_s is not None:
        # On a virtual clock the window passes as fast as it is computed, so the wall's own measure is the whole.
        return past.whole_s if past.modelled else once + lasts_s
    return once + past.window_s * _tokens(workload, trace) / past.tokens


def _lasts_s(workload: WorkloadSpec, trace: TraceRef | None) -> float | None:
    """How long it sends, where that is known before."""
    if isinstance(workload.arrival, RecordedArrival) and trace is not None and workload.trace is not None:
        return trace.extent.lasts_s * workload.trace.time_scale
    return workload.lasts_s


def _tokens(workload: WorkloadSpec, trace: TraceRef | None) -> float:
    """What the measured requests cost, in tokens: an answer's token weighs as a step, a prompt's far less."""
    if trace is not None:
        return trace.extent.output_tokens + trace.extent.input_tokens / 16
    requests = workload.num_requests or (workload.lasts_s or 1.0)
    prefix = workload.shared_prefix.prefix_tokens if workload.shared_prefix else 0
    output = _mean(workload.output_len) * (1 + (workload.thinking.mean if workload.thinking else 0))
    return requests * (output + (_mean(workload.input_len) + prefix) / 16)


def _mean(length: LengthSpec) -> float:
    if isinstance(length, FixedLen):
        return length.tokens
    if isinstance(length, LognormalLen):
        return min(length.median_tokens * math.exp(length.sigma**2 / 2), length.max_tokens)
    return (length.min_tokens + length.max_tokens) / 2


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
