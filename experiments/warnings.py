"""What a person should know before he submits: allowed, but likely to waste time or to end without a verdict.

Pure: a plan and what is known of the nodes in, sentences out. What is refused is in experiments.services.feasibility.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from experiments.chosen_models import name_of
from experiments.estimate import Estimate
from hardware.models import NodeState
from runners.matrix import Plan
from runners.metric import samples_needed
from runners.spec import ExperimentSpec
from runners.validity import THRESHOLDS

UP = (NodeState.ONLINE, NodeState.BUSY)
STATES = {
    NodeState.REGISTERED: "has not joined yet",
    NodeState.DRAINING: "is draining",
    NodeState.LOST: "is lost",
    NodeState.BUSY: "is busy",
    NodeState.ONLINE: "is free",
    NodeState.RETIRED: "is retired",
}
NAMED = 4


@dataclass(frozen=True)
class Warning:
    field: str
    message: str


@dataclass(frozen=True)
class MatchingNode:
    """A node that could run some trial of the plan. `held` names the models that it need not fetch; with a
    `fault` it takes no run though it may be up."""

    name: str
    state: str
    modelled: bool = False
    held: frozenset[str] = field(default_factory=frozenset)
    fault: str = ""

    @property
    def is_up(self) -> bool:
        return self.state in UP and not self.fault

    @property
    def is_free(self) -> bool:
        return self.state == NodeState.ONLINE and not self.fault

    def __str__(self) -> str:
        return f"{self.name} " + (f"can take no run ({self.fault})" if self.fault else STATES[NodeState(self.state)])


def find_warnings(
    plan: Plan,
    nodes: Sequence[MatchingNode],
    model_bytes: dict[str, int],
    expected: Estimate | None = None,
    queued_before: int = 0,
) -> list[Warning]:
    """All that the plan should give pause to, the gravest first. `model_bytes` has the size of each model's files."""
    return [
        *_about_nodes(nodes, queued_before),
        *_about_models(plan, nodes, model_bytes),
        *_about_load(plan),
        *_about_percentiles(plan),
        *_about_repeats(plan, nodes),
        *_about_time(plan, expected),
    ]


def _about_nodes(nodes: Sequence[MatchingNode], queued_before: int) -> Iterator[Warning]:
    if nodes and not any(node.is_up for node in nodes):
        yield Warning("nodes", f"no node that matches is up: {_states(nodes)}; the runs wait until one is")
    elif nodes and not any(node.is_free for node in nodes):
        before = f", {queued_before} run{'s' * (queued_before != 1)} are queued before these" if queued_before else ""
        yield Warning("nodes", f"no node that matches is free: {_states(nodes)}{before}")


def _states(nodes: Sequence[MatchingNode]) -> str:
    said = ", ".join(str(node) for node in nodes[:NAMED])
    return said + (f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else "")


def _about_models(plan: Plan, nodes: Sequence[MatchingNode], model_bytes: dict[str, int]) -> Iterator[Warning]:
    measured = [node for node in nodes if not node.modelled]  # a modelled node needs no file
    for model in sorted({name_of(cell.spec.model) for cell in plan.cells}):
        missing = [node.name for node in measured if model not in node.held]
        if missing:
            size = f", {model_bytes[model] / 1e6:,.0f} MB" if model in model_bytes else ""
            where = ", ".join(missing[:NAMED]) + (" and others" if len(missing) > NAMED else "")
            verb = "holds" if len(missing) == 1 else "hold"
            not_held = f"{where} does not hold" if verb == "holds" else f"{where} do not hold"
            yield Warning("model", f"{not_held} {model} yet: it is fetched before the run's clock starts{size}")


def _about_load(plan: Plan) -> Iterator[Warning]:
    cells = [cell.spec for cell in plan.cells]
    least = int(THRESHOLDS["too_few_requests"])
    few = [spec for spec in cells if (spec.workload.num_requests or least) < least]
    if few:
        fewest = min(spec.workload.num_requests or 0 for spec in few)
        message = f"{fewest} requests are below {least}: such a run is invalid (too_few_requests)"
        yield Warning("workload.num_requests", message)
    narrow = [spec for spec in cells if spec.workload.most_users > spec.engine.max_num_seqs]
    if narrow:
        seqs, users = narrow[0].engine.max_num_seqs, narrow[0].workload.most_users
        message = f"max_num_seqs {seqs} is below {users} users at once{_in(narrow, cells)}: requests wait for a place"
        yield Warning("engine.max_num_seqs", message)
    loads = [(spec, 2 * spec.workload.most_users) for spec in cells]
    short = [spec for spec, least in loads if least > (spec.workload.num_requests or least)]
    if short:
        users, requests = short[0].workload.most_users, short[0].workload.num_requests
        message = f"{requests} requests for {users} users at once{_in(short, cells)}: the run may reach no steady state"
        yield Warning("workload.num_requests", message)


def _in(some: Sequence[ExperimentSpec], cells: Sequence[ExperimentSpec]) -> str:
    return f" in {len(some)} of {len(cells)} trials" if len(some) < len(cells) else ""


def _about_percentiles(plan: Plan) -> Iterator[Warning]:
    """A percentile that the objective names, or p90, with too few requests to be shown as more than a hint."""
    requests = min((cell.spec.workload.num_requests or 0 for cell in plan.cells), default=0)
    if not requests:
        return
    named = {
        name: f"slo.{key}"
        for key, objective in plan.spec.slo.model_dump().items()
        if isinstance(objective, dict)
        for name in objective
    }
    for name, where in sorted((named or {"p90": "workload.num_requests"}).items()):
        needed = samples_needed(float(name[1:]))
        if requests < needed:
            yield Warning(where, f"{name} rests on at least {needed} requests; with {requests} it is shown greyed")


def _about_repeats(plan: Plan, nodes: Sequence[MatchingNode]) -> Iterator[Warning]:
    if plan.spec.most_repeats == 1 and not (nodes and all(node.modelled for node in nodes)):
        yield Warning("repeats", "one repeat gives no interval, so no difference can be told from noise")
    for path, values in plan.spec.matrix.items():
        if len(values) == 1:
            yield Warning(f"matrix.{path}", "one value alone compares nothing")


def _about_time(plan: Plan, expected: Estimate | None) -> Iterator[Warning]:
    if expected is None:
        return
    budget = plan.spec.budget
    if expected.high > budget.max_seconds:
        message = f"the runs may take {expected.high:,.0f} s and are ended after budget.max_seconds"
        yield Warning("budget.max_seconds", f"{message} = {budget.max_seconds:g}")
