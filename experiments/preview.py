"""What a plan would meet if it were submitted now: warnings, and how long it would take. Reads; stores nothing."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.estimate import Estimate, estimate, past_runs
from experiments.models import Run, RunState
from experiments.placement import matches
from experiments.services.feasibility import demand_of, node_view
from experiments.warnings import UP, MatchingNode, Warning, find_warnings
from hardware.models import Node, NodeKind
from hardware.selectors import nodes_serving
from labsite.accounts.models import Project
from runners import models as registry
from runners.matrix import Plan


@dataclass(frozen=True)
class Preview:
    warnings: list[Warning]
    estimate: Estimate | None


def preview(plan: Plan, project: Project) -> Preview:
    """For a plan that is feasible. A fixed number of queries, whatever the plan's size."""
    nodes = _matching(plan, project)
    up = [node for node in nodes if node.state in UP]
    modelled = bool(nodes) and all(node.modelled for node in nodes)
    expected = estimate(plan, past_runs(project), modelled, len(up))
    sizes = {name: entry.bytes for name, entry in registry.REGISTRY.items()}
    return Preview(find_warnings(plan, nodes, sizes, expected, _queued(project)), expected)


def _matching(plan: Plan, project: Project) -> list[MatchingNode]:
    demands = {demand_of(cell.spec, project.pk) for cell in plan.cells}
    serving = nodes_serving(project.pk).order_by("name")
    return [_as_matching(node) for node in serving if any(matches(one, node_view(node)) for one in demands)]


def _as_matching(node: Node) -> MatchingNode:
    held = frozenset(str(model["name"]) for model in node.models_held)
    return MatchingNode(node.name, node.state, node.kind == NodeKind.MODELLED, held)


def _queued(project: Project) -> int:
    return Run.objects.filter(experiment__project=project, state=RunState.QUEUED).count()
