"""Why a queued run waits, in words: which nodes could take it, and what keeps them."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.models import Run, RunState
from experiments.placement import matches
from experiments.services.feasibility import node_view
from experiments.services.placing import demand_of_run
from hardware.models import Node, NodeState
from hardware.selectors import nodes_serving

UP = (NodeState.ONLINE, NodeState.BUSY)
WORDS = {
    NodeState.REGISTERED: "has not joined yet",
    NodeState.DRAINING: "is draining",
    NodeState.LOST: "is lost",
    NodeState.BUSY: "is busy",
    NodeState.ONLINE: "is free",
}


def explain_waiting(runs: Iterable[Run]) -> dict[int, str]:
    """A sentence for each queued run, by its id. Runs must have their experiment loaded; one query per project."""
    queued = [run for run in runs if run.state == RunState.QUEUED]
    serving = {project: list(nodes_serving(project)) for project in {run.experiment.project_id for run in queued}}
    return {run.pk: _explain(run, serving[run.experiment.project_id]) for run in queued}


def _explain(run: Run, nodes: list[Node]) -> str:
    demand = demand_of_run(run)
    fitting = [node for node in nodes if matches(demand, node_view(node))]
    if not fitting:
        return "no node that matches is registered any more"
    states = ", ".join(f"{node.name} {_words(node)}" for node in fitting[:5])
    more = f" and {len(fitting) - 5} more" if len(fitting) > 5 else ""
    if any(node.state in UP and not node.fault for node in fitting):
        return f"waiting for its turn: {states}{more}"
    return f"no node that matches is up: {states}{more}"


def _words(node: Node) -> str:
    return f"can take no run ({node.fault})" if node.fault else WORDS[NodeState(node.state)]
