"""What a document names must exist: its models, chips, and some node that could ever run each trial, with the memory
for its model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

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
from experiments.placement import ANY_CHIP, Demand, FreeNode, has_chips, has_memory, is_meant
from experiments.services.modelled_chips import ModelledRecords, modelled_records, why_not_modelled
from hardware.models import Node, NodeKind
from hardware.selectors import current_chips, nodes_serving
from labsite.accounts.models import Project
from runners.document import FieldError, SpecError
from runners.matrix import Plan
from runners.models.memory import least_memory_bytes, machine_memory_bytes
from runners.spec import ExperimentSpec, PlacementSpec

NAMED_NODES = 5


def check_feasible(plan: Plan, project: Project) -> dict[ModelChoice, ChosenModel]:
    """The models that the plan names. Raises SpecError with every fault: unknown model or chip, requests too long, no
    node that could match, none with enough memory."""
    errors: dict[tuple[str, str], FieldError] = {}
    serving = list(nodes_serving(project.pk))
    nodes, records = [node_view(node) for node in serving], modelled_records(serving)
    chips = sorted(current_chips().values_list("chip_id", flat=True))
    models = find_models(choice for cell in plan.cells for choice in choices_of(cell.spec))
    for cell in plan.cells:
        for error in _faults(cell.spec, plan.spec, models, chips, nodes, records, project.pk):
            errors.setdefault((error.field, error.message), error)
    if errors:
        raise SpecError(list(errors.values()))
    return models


def demand_of(spec: ExperimentSpec, project_id: int, model: ChosenModel | None = None) -> Demand:
    """What a trial asks of a node; with its model also how much memory."""
    labels = tuple(sorted(spec.nodes.labels.items()))
    memory_bytes = least_memory_of(model, spec) if model else 0
    return Demand(project_id, chips_of(spec.placement, spec.chip), labels, spec.nodes.names, memory_bytes)


def chips_of(placement: PlacementSpec, chip: str) -> tuple[str, ...]:
    """The ids of the chips that it names; none where it is any."""
    return tuple(one for one in placement.chips(chip) if one != ANY_CHIP)


def least_memory_of(model: ChosenModel, spec: ExperimentSpec) -> int:
    """Bytes without which no node can run the trial at all."""
    return least_memory_bytes(model.shape, spec.engine.weights, spec.engine.kv_cache, spec.workload.longest)


def node_view(node: Node) -> FreeNode:
    return FreeNode(
        node.pk,
        node.project_id,
        node.chip.chip_id if node.chip else "",
        node.all_labels(),
        _memory_of(node),
        frozenset(str(model["sha256"]) for model in node.models_held),
        node.offers(),
    )


def _memory_of(node: Node) -> int | None:
    """Of a modelled node what its chip's record says, of a measured one what its agent found."""
    if node.kind == NodeKind.MODELLED:
        memory = node.chip.record.get("memory") if node.chip else None
        return memory.get("capacity_bytes") if isinstance(memory, dict) else None
    return machine_memory_bytes(node.facts)


def _faults(
    cell: ExperimentSpec,
    whole: ExperimentSpec,
    models: dict[ModelChoice, ChosenModel],
    chips: list[str],
    nodes: list[FreeNode],
    records: ModelledRecords,
    project_id: int,
) -> Iterable[FieldError]:
    model = models.get(cell.model)
    draft = draft_of(cell)
    if model is None:
        yield from (_at_axis(whole, fault) for fault in why_not(cell.model))
        return
    if draft is not None and draft not in models:
        yield from (_at_axis(whole, fault) for fault in why_not(draft, "engine.speculation.model"))
    yield from (_at_axis(whole, fault) for fault in workload_faults(cell, model))
    longest_allowed = int(model.shape["max_model_len"])
    longest = cell.workload.longest
    if longest > longest_allowed:
        message = f"prompt and output may reach {longest} tokens; {model.name} takes {longest_allowed} in all"
        yield FieldError("workload.input_len", message, f"input and output: at most {longest_allowed} together")
    if cell.chip not in ("any", *chips):
        yield FieldError(_axis(whole, "chip"), f"no chip {cell.chip!r} in the catalog", ["any", *chips])
        return
    demand = demand_of(cell, project_id, model)
    meant = [node for node in nodes if is_meant(demand, node) and has_chips(demand, node)]
    kinds = {node.labels["kind"] for node in meant}
    if refusal := why_not_modelled(cell, model.shape, demand, nodes, records):
        named = refusal.field if refusal.field == "allow_speculative" else _axis(whole, refusal.field)
        yield FieldError(named, f"{refusal.chip_id}: {refusal.message}", refusal.allowed)
    elif not kinds:
        yield FieldError("nodes", _unmatched(cell), _offered(nodes))
    elif len(kinds) > 1:
        message = "these nodes are measured and modelled ones; one trial's runs must all be of one kind"
        yield FieldError("nodes", message, [{"kind": kind} for kind in sorted(kinds)])
    elif faults := list(measured_faults(cell, model) if kinds == {NodeKind.MEASURED} else ()):
        yield from (_at_axis(whole, fault) for fault in faults)
    elif not any(has_memory(demand, node) for node in meant):
        yield _too_large(cell, whole, model, demand, meant)


def _too_large(
    cell: ExperimentSpec, whole: ExperimentSpec, model: ChosenModel, demand: Demand, nodes: list[FreeNode]
) -> FieldError:
    largest = sorted(nodes, key=lambda node: -(node.memory_bytes or 0))[:NAMED_NODES]
    has = {node.labels["name"]: f"{node.memory_bytes or 0:,} bytes" for node in largest}
    message = (
        f"{model.name} needs at least {demand.memory_bytes:,} bytes of memory ({cell.engine.weights} weights and one "
        f"sequence); no node that matches has them: {', '.join(f'{name} has {size}' for name, size in has.items())}"
    )
    return FieldError(_axis(whole, "model"), message, has)


def _at_axis(whole: ExperimentSpec, fault: FieldError) -> FieldError:
    return FieldError(_axis(whole, fault.field), fault.message, fault.allowed)


def _axis(whole: ExperimentSpec, name: str) -> str:
    return f"matrix.{name}" if name in whole.matrix else name


def _unmatched(cell: ExperimentSpec) -> str:
    asked = [f"{key}: {value}" for key, value in cell.nodes.labels.items()]
    asked += [f"name: {' or '.join(cell.nodes.names)}"] if cell.nodes.names else []
    asked += [f"chip: {cell.chip}"] if cell.chip != "any" else []
    return f"no registered node that serves this project has {', '.join(asked) or 'kind: measured'}"


def _offered(nodes: list[FreeNode]) -> dict[str, list[str]]:
    """Every label that exists, with its values."""
    offered: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for key, value in node.labels.items():
            if value:
                offered[key].add(value)
    return {key: sorted(values) for key, values in sorted(offered.items())}
