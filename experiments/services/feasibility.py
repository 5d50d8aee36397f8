"""What a document names must exist: its models, chips, and some node that could ever run each trial, with the chips and
the memory that it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from experiments.chosen_models import (
    ChosenModel,
    ModelChoice,
    choices_of,
    draft_of,
    find_models,
    measured_faults,
    why_not,
    workload_faults,
)
from experiments.chosen_traces import TraceChooser, longest_of
from experiments.engine_offers import BUILTIN, EngineDemand, engine_faults, offers_of
from experiments.measured_limits import measured_limits, modelled_limits
from experiments.placement import ANY_CHIP, Demand, FreeNode, has_chips, has_memory, is_meant
from experiments.services.goals import goal_faults
from experiments.topologies import NoTopology, Offer, Planner, offer_of
from hardware.models import Node, NodeKind
from hardware.selectors import current_chips, nodes_serving
from labsite.accounts.models import Project
from runners.document import FieldError, SpecError
from runners.matrix import Plan, field_that_sets
from runners.models.memory import least_memory_bytes, machine_memory_bytes
from runners.spec import ExperimentSpec, PlacementSpec, TraceRef

NAMED_NODES = 5
ChipCounts = dict[str, int]


@dataclass(frozen=True)
class Feasible:
    """The models that a plan names, and how many of which chips each of its trials takes on modelled nodes, by the
    trial's index (RunSpec.chip_counts); `traces` are what they replay, by index too."""

    models: Mapping[ModelChoice, ChosenModel]
    counts: Mapping[int, ChipCounts]
    traces: Mapping[int, TraceRef] = field(default_factory=dict)


def check_feasible(plan: Plan, project: Project) -> Feasible:
    """Raises SpecError with every fault: unknown model, chip or trace, requests too long, no node that could match,
    none with enough memory, a setting that the nodes don't take, an impossible topology."""
    errors = {(fault.field, fault.message): fault for fault in goal_faults(plan.spec)}
    judge = _judge(plan, project)
    counts: dict[int, ChipCounts] = {}
    traces: dict[int, TraceRef] = {}
    for cell in plan.cells:
        trace = judge.traces.choose(cell.spec)
        if isinstance(trace, TraceRef):
            traces[cell.index] = trace
        found = trace if isinstance(trace, list) else judge.judge(cell.spec, trace)
        if isinstance(found, dict):
            counts[cell.index] = found
            continue
        for fault in found:
            field = field_that_sets(fault.field, plan.spec) or fault.field
            errors.setdefault((field, fault.message), FieldError(field, fault.message, fault.allowed))
    if errors:
        raise SpecError(list(errors.values()))
    return Feasible(judge.models, counts, traces)


def _judge(plan: Plan, project: Project) -> _Judge:
    """With all that is stored about what the plan names: a query for each kind of thing."""
    serving = list(nodes_serving(project.pk))
    records = dict(current_chips().values_list("chip_id", "record"))
    return _Judge(
        project.pk,
        find_models(choice for cell in plan.cells for choice in choices_of(cell.spec)),
        [node_view(node) for node in serving],
        {node.pk: offer_of(node) for node in serving if node.kind == NodeKind.MODELLED},
        sorted(records),
        Planner(records),
        TraceChooser(project.pk, [cell.spec for cell in plan.cells]),
    )


def demand_of(
    spec: ExperimentSpec,
    project_id: int,
    model: ChosenModel | None = None,
    counts: ChipCounts | None = None,
    trace: TraceRef | None = None,
) -> Demand:
    """What a trial asks of a node; with its model also how much memory."""
    labels = tuple(sorted(spec.nodes.labels.items()))
    memory_bytes = least_memory_of(model, spec, trace) if model else 0
    chips, taken = chips_of(spec.placement, spec.chip), tuple(sorted((counts or {}).items()))
    engine = EngineDemand(spec.engine.kind, spec.engine.name, model.name if model else "")
    return Demand(project_id, chips, labels, spec.nodes.names, memory_bytes, taken, engine)


def chips_of(placement: PlacementSpec, chip: str) -> tuple[str, ...]:
    """The ids of the chips that it names; none where it is any."""
    return tuple(one for one in placement.chips(chip) if one != ANY_CHIP)


def least_memory_of(model: ChosenModel, spec: ExperimentSpec, trace: TraceRef | None = None) -> int:
    """Bytes without which no node can run the trial at all. What an engine that is not ours needs is not known."""
    if spec.engine.kind != BUILTIN:
        return 0
    longest = longest_of(spec, trace, int(model.shape["max_model_len"]))
    return least_memory_bytes(model.shape, spec.engine.weights, spec.engine.kv_cache, longest)


def node_view(node: Node) -> FreeNode:
    return FreeNode(
        node.pk,
        node.project_id,
        node.chip.chip_id if node.chip else "",
        node.all_labels(),
        _memory_of(node),
        frozenset(str(model["sha256"]) for model in node.models_held),
        node.offers(),
        offers_of(node.engines),
    )


def _memory_of(node: Node) -> int | None:
    """What the agent of a measured node found. Of a modelled one the chips that a trial takes decide it."""
    return None if node.kind == NodeKind.MODELLED else machine_memory_bytes(node.facts)


@dataclass(frozen=True)
class _Judge:
    """What is known of models, nodes and chips, and what it says of a trial. Faults name fields of the trial's own
    document."""

    project_id: int
    models: Mapping[ModelChoice, ChosenModel]
    nodes: list[FreeNode]
    offers: Mapping[int, Offer]
    chips: list[str]
    planner: Planner
    traces: TraceChooser

    def judge(self, cell: ExperimentSpec, trace: TraceRef | None) -> ChipCounts | list[FieldError]:
        """How many of which chips it takes (none on a measured node), or every fault."""
        faults = [*self._of_models(cell), *self._of_chips(cell)]
        if faults:
            return faults
        model = self.models[cell.model]
        demand = demand_of(cell, self.project_id, model, trace=trace)
        asked = [node for node in self.nodes if is_meant(demand, node)]
        meant = [node for node in asked if has_chips(demand, node)]
        kinds = {node.labels["kind"] for node in meant}
        if not kinds:
            # Measured nodes that were asked for by name or label lack the chips of a system because they take none.
            limits = list(measured_limits(cell)) if asked and not any(node.is_modelled for node in asked) else []
            return limits or [FieldError("nodes", _unmatched(cell, demand), _offered(self.nodes))]
        if len(kinds) > 1:
            message = "these nodes are measured and modelled ones; one trial's runs must all be of one kind"
            return [FieldError("nodes", message, [{"kind": kind} for kind in sorted(kinds)])]
        if kinds == {NodeKind.MODELLED}:
            if cell.engine.kind != BUILTIN:
                message = f"a modelled node has no {cell.engine.kind} engines; only what is built in can be modelled"
                return [FieldError("engine.kind", message, [BUILTIN])]
            return list(modelled_limits(cell)) or self._count_chips(cell, meant, trace)
        faults = [
            *measured_limits(cell),
            *measured_faults(cell, model),
            *engine_faults(cell, model.name, model.random_weights, [one for node in meant for one in node.engines]),
        ]
        return faults or _too_large(cell, model, demand, meant) or {}

    def _of_models(self, cell: ExperimentSpec) -> Iterator[FieldError]:
        model, draft = self.models.get(cell.model), draft_of(cell)
        if draft is not None and draft not in self.models:
            yield from why_not(draft, "engine.speculation.model")
        if model is None:
            yield from why_not(cell.model)
            return
        yield from workload_faults(cell, model)
        allowed, longest = int(model.shape["max_model_len"]), cell.workload.longest
        if longest > allowed:
            message = f"prompt and output may reach {longest} tokens; {model.name} takes {allowed} in all"
            yield FieldError("workload.input_len", message, f"input and output: at most {allowed} together")

    def _of_chips(self, cell: ExperimentSpec) -> Iterator[FieldError]:
        if cell.chip not in (ANY_CHIP, *self.chips):
            yield FieldError("chip", f"no chip {cell.chip!r} in the catalog", [ANY_CHIP, *self.chips])
        for role, pool in cell.placement.disaggregate.pools.items():
            if pool.chip not in self.chips:
                field = f"placement.disaggregate.{role}.chip"
                yield FieldError(field, f"no chip {pool.chip!r} in the catalog", self.chips)

    def _count_chips(
        self, cell: ExperimentSpec, meant: list[FreeNode], trace: TraceRef | None
    ) -> ChipCounts | list[FieldError]:
        """As one of the nodes would plan it; where no chip is named, as each of their own chips that can."""
        draft = draft_of(cell)
        model, drafting = self.models[cell.model], self.models[draft] if draft else None
        longest = longest_of(cell, trace, int(model.shape["max_model_len"]))
        counts: ChipCounts = {}
        faults: list[FieldError] = []
        for node in sorted(meant, key=lambda one: one.chip_id):
            chip_id = cell.chip if cell.chip != ANY_CHIP else node.chip_id
            try:
                counts |= self.planner.count_chips(cell, chip_id, model, drafting, self.offers[node.node_id], longest)
            except NoTopology as refusal:
                faults.append(refusal.fault)
        return counts or faults[:1]


def _too_large(cell: ExperimentSpec, model: ChosenModel, demand: Demand, nodes: list[FreeNode]) -> list[FieldError]:
    """The fault, where none of the nodes has the memory."""
    if any(has_memory(demand, node) for node in nodes):
        return []
    largest = sorted(nodes, key=lambda node: -(node.memory_bytes or 0))[:NAMED_NODES]
    has = {node.labels["name"]: f"{node.memory_bytes or 0:,} bytes" for node in largest}
    message = (
        f"{model.name} needs at least {demand.memory_bytes:,} bytes of memory ({cell.engine.weights} weights and one "
        f"sequence); no node that matches has them: {', '.join(f'{name} has {size}' for name, size in has.items())}"
    )
    return [FieldError("model", message, has)]


def _unmatched(cell: ExperimentSpec, demand: Demand) -> str:
    asked = [f"{key}: {value}" for key, value in cell.nodes.labels.items()]
    asked += [f"name: {' or '.join(cell.nodes.names)}"] if cell.nodes.names else []
    asked += [f"chip: {' and '.join(demand.chips)}"] if demand.chips else []
    return f"no registered node that serves this project has {', '.join(asked) or 'kind: measured'}"


def _offered(nodes: list[FreeNode]) -> dict[str, list[str]]:
    """Every label that exists, with its values, and every chip of a pool."""
    offered: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        if node.offers:
            offered["chip"].update(node.offers)
        for key, value in node.labels.items():
            if value:
                offered[key].add(value)
    return {key: sorted(values) for key, values in sorted(offered.items())}
