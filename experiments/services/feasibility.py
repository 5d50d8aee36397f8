"""What a document names must exist: its models, chips, and some node that could ever run each trial."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from experiments.placement import Demand, FreeNode, matches
from hardware.models import Node
from hardware.selectors import current_chips, nodes_serving
from labsite.accounts.models import Project
from runners import models as registry
from runners.document import FieldError, SpecError
from runners.matrix import Plan
from runners.spec import ExperimentSpec


def check_feasible(plan: Plan, project: Project) -> None:
    """Raises SpecError with every fault: unknown model or chip, requests too long, no node that could match."""
    errors: dict[tuple[str, str], FieldError] = {}
    nodes = [node_view(node) for node in nodes_serving(project.pk)]
    chips = sorted(current_chips().values_list("chip_id", flat=True))
    for cell in plan.cells:
        for error in _faults(cell.spec, plan.spec, chips, nodes, project.pk):
            errors.setdefault((error.field, error.message), error)
    if errors:
        raise SpecError(list(errors.values()))


def demand_of(spec: ExperimentSpec, project_id: int) -> Demand:
    return Demand(project_id, spec.chip, tuple(sorted(spec.nodes.labels.items())), spec.nodes.names)


def node_view(node: Node) -> FreeNode:
    return FreeNode(node.pk, node.project_id, node.chip.chip_id if node.chip else "", node.all_labels())


def _faults(
    cell: ExperimentSpec, whole: ExperimentSpec, chips: list[str], nodes: list[FreeNode], project_id: int
) -> Iterable[FieldError]:
    try:
        longest_allowed = int(registry.get(cell.model).shape["max_model_len"])
    except registry.UnknownModel as error:
        yield FieldError(_axis(whole, "model"), f"no model is registered as {cell.model!r}", error.allowed)
        return
    workload = cell.workload
    longest = workload.input_len.longest + workload.output_len.longest
    if longest > longest_allowed:
        message = f"prompt and output may reach {longest} tokens; {cell.model} takes {longest_allowed} in all"
        yield FieldError("workload.input_len", message, f"input and output: at most {longest_allowed} together")
    if cell.chip not in ("any", *chips):
        yield FieldError(_axis(whole, "chip"), f"no chip {cell.chip!r} in the catalog", ["any", *chips])
        return
    kinds = {node.labels["kind"] for node in nodes if matches(demand_of(cell, project_id), node)}
    if not kinds:
        yield FieldError("nodes", _unmatched(cell), _offered(nodes))
    elif len(kinds) > 1:
        message = "these nodes are measured and modelled ones; one trial's runs must all be of one kind"
        yield FieldError("nodes", message, [{"kind": kind} for kind in sorted(kinds)])


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
