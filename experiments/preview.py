"""What a plan would meet if it were submitted now: warnings, and how long it would take. Reads; stores nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.chosen_models import ChosenModel, ModelChoice
from experiments.estimate import Estimate, estimate, past_runs
from experiments.models import Run, RunState
from experiments.placement import matches
from experiments.services.feasibility import Feasible, demand_of, node_view
from experiments.system_warnings import find_system_warnings
from experiments.warnings import MatchingNode, Warning, find_warnings
from hardware.models import Node, NodeKind
from hardware.selectors import nodes_serving
from labsite.accounts.models import Project
from runners.matrix import Plan


@dataclass(frozen=True)
class Preview:
    warnings: list[Warning]
    estimate: Estimate | None


def preview(plan: Plan, project: Project, found: Feasible) -> Preview:
    """For a plan that was found feasible. A fixed number of queries, whatever the plan's size."""
    models = {cell.spec.model: found.models[cell.spec.model] for cell in plan.cells}
    nodes = _matching(plan, project, found)
    up = [node for node in nodes if node.is_up]
    modelled = bool(nodes) and all(node.modelled for node in nodes)
    expected = estimate(plan, past_runs(project), modelled, len(up), found.traces)
    sizes = {model.name: model.bytes for model in models.values() if not model.random_weights}
    warnings = find_warnings(plan, nodes, sizes, expected, _queued(project))
    return Preview([*warnings, *find_system_warnings(plan)], expected)


def _matching(plan: Plan, project: Project, found: Feasible) -> list[MatchingNode]:
    demands = {
        demand_of(
            cell.spec, project.pk, found.models[cell.spec.model], found.counts[cell.index], found.traces.get(cell.index)
        )
        for cell in plan.cells
    }
    serving = nodes_serving(project.pk).order_by("name")
    return [
        _as_matching(node, found.models) for node in serving if any(matches(one, node_view(node)) for one in demands)
    ]


def _as_matching(node: Node, models: Mapping[ModelChoice, ChosenModel]) -> MatchingNode:
    hashes = {model["sha256"] for model in node.models_held}
    held = frozenset(one.name for one in models.values() if one.random_weights or one.sha256 in hashes)
    return MatchingNode(node.name, node.state, node.kind == NodeKind.MODELLED, held, node.fault)


def _queued(project: Project) -> int:
    return Run.objects.filter(experiment__project=project, state=RunState.QUEUED).count()
