"""Gives queued runs to free nodes: QUEUED → ASSIGNED with a new attempt, then a message to the node."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Max, Q
from django.utils import timezone

from experiments.dispatch import BrokerDown, send_attempt, send_placement
from experiments.engine_offers import BUILTIN, demand_of_engine
from experiments.models import ATTEMPT_LIVE, Attempt, Experiment, ExperimentState, Run, RunState
from experiments.placement import ANY_CHIP, NEVER, Demand, FreeNode, QueuedRun, Repeat, Service, assign, group_of
from experiments.services.feasibility import node_view
from experiments.services.locks import lock_placing
from hardware.models import LEASE_S, Node, NodeState
from hardware.services import mark_busy
from runners.models.memory import least_memory_bytes
from runners.spec.placement import ROLES
from runners.spec.workload import SESSION_KINDS, WorkloadSpec

log = logging.getLogger(__name__)


def request_placement() -> None:
    """Asks the control worker to place soon. If the broker is down, its own schedule will."""
    try:
        send_placement()
    except BrokerDown as error:
        log.warning("placing is left to the schedule: %s", error)


def place_runs() -> int:
    """Assigns what can be assigned now; says how many. Idempotent, and safe to call from anywhere at any time.

    The messages go out after the commit: if the broker is down the assignment stands, and the reaper sends again.
    """
    with transaction.atomic():
        lock_placing()
        nodes = _free_nodes(timezone.now())
        queued = _queue() if nodes else []
        waiting = {run.experiment_id for run in queued}
        pairs = assign(queued, nodes, _served(waiting), _held(waiting)) if queued else []
        attempts = [attempt for pair in pairs if (attempt := _assign_run(*pair))]
        if attempts:
            transaction.on_commit(partial(send_attempts, [attempt.pk for attempt in attempts]))
    return len(attempts)


def send_attempts(attempt_ids: Iterable[int]) -> None:
    """Sends the message of each attempt that is still unclaimed; stops at the first that the broker does not take."""
    waiting = Attempt.objects.filter(pk__in=attempt_ids, state="assigned").select_related("node")
    for attempt in waiting:
        assert attempt.node is not None  # one that waits was given to a node; only imported ones have none
        try:
            send_attempt(attempt.node.slug, attempt.run_id, attempt.number)
        except BrokerDown as error:
            log.warning("run %s attempt %s: %s", attempt.run_id, attempt.number, error)
            return
        Attempt.objects.filter(pk=attempt.pk).update(sent_at=timezone.now())


def _free_nodes(now: dt.datetime) -> list[FreeNode]:
    """Nodes that hold a lease, have nothing to do and no fault; those idle for longest come first."""
    leased = Node.objects.filter(state=NodeState.ONLINE, fault="", last_seen_at__gt=now - dt.timedelta(seconds=LEASE_S))
    idle = leased.exclude(attempts__state__in=ATTEMPT_LIVE).annotate(last=Max("attempts__ended_at"))
    ordered = idle.select_related("chip").order_by(F("last").asc(nulls_first=True), "pk")
    return [node_view(node) for node in ordered]


def _queue() -> list[QueuedRun]:
    active = Run.objects.filter(state=RunState.QUEUED, experiment__state=ExperimentState.ACTIVE)
    rows = active.values_list(
        "pk",
        "experiment_id",
        "position",
        "repeat",
        "experiment__priority",
        "spec__model__sha256",
        "experiment__project_id",
        "experiment__spec__nodes",
        "spec__chip_id",
        "spec__placement",
        "spec__chip_counts",
        "spec__model__shape",
        "spec__engine",
        "spec__workload",
        "spec__trace",
        "spec__model__name",
    )
    return [
        QueuedRun(pk, experiment, position, repeat, stored_demand(*asked), priority, model)
        for pk, experiment, position, repeat, priority, model, *asked in rows
    ]


def demand_of_run(run: Run) -> Demand:
    """What a run asks of a node. Its experiment must be loaded."""
    spec, experiment = run.spec, run.experiment
    chips = spec["chip_id"], spec["placement"], spec.get("chip_counts")
    load = spec["model"]["shape"], spec["engine"], spec["workload"], spec.get("trace"), spec["model"]["name"]
    return stored_demand(experiment.project_id, experiment.spec["nodes"], *chips, *load)


def stored_demand(
    project_id: int,
    nodes: dict[str, Any],
    chip_id: str,
    placement: dict[str, Any],
    chip_counts: dict[str, int] | None,
    shape: dict[str, Any],
    engine: dict[str, Any],
    workload: dict[str, Any],
    trace: dict[str, Any] | None,
    model: str,
) -> Demand:
    """What a run asks of a node, from its experiment's node selector and the parts of its spec as they are stored."""
    labels = tuple(sorted(nodes["labels"].items()))
    longest = min(trace["extent"]["longest"], shape["max_model_len"]) if trace else _longest(workload)
    memory_bytes = 0
    if engine.get("kind", BUILTIN) == BUILTIN:
        memory_bytes = least_memory_bytes(shape, engine["weights"], engine["kv_cache"], longest)
    counts = tuple(sorted((chip_counts or {}).items()))
    chips, asked = stored_chips(chip_id, placement), demand_of_engine(engine, model)
    return Demand(project_id, chips, labels, tuple(nodes["names"]), memory_bytes, counts, asked)


# A queue has too many specs to validate each again; these read the stored form as the types of runners.spec would.
def stored_chips(chip_id: str, placement: dict[str, Any]) -> tuple[str, ...]:
    """The chips that a placement names; none where the document's chip is any."""
    disaggregate = placement["disaggregate"]
    roles = ROLES[disaggregate["kind"]] if isinstance(disaggregate, dict) else ()
    pools = tuple(dict.fromkeys(disaggregate[role]["chip"] for role in roles))
    return pools or (() if chip_id == ANY_CHIP else (chip_id,))


def _longest(workload: dict[str, Any]) -> int:
    if workload["kind"] in SESSION_KINDS or workload.get("thinking") or workload["classes"]:
        return WorkloadSpec.model_validate(workload).longest
    lengths = (workload["input_len"], workload["output_len"])
    prefix = (workload.get("shared_prefix") or {}).get("prefix_tokens", 0)
    return sum(int(one["tokens"] if one["dist"] == "fixed" else one["max_tokens"]) for one in lengths) + int(prefix)


def _served(experiment_ids: set[int]) -> dict[int, Service]:
    under_way = Count("runs", filter=Q(runs__state__in=[RunState.ASSIGNED, RunState.RUNNING]), distinct=True)
    rows = Experiment.objects.filter(pk__in=experiment_ids).annotate(
        under_way=under_way, last=Max("runs__attempts__assigned_at")
    )
    return {row.pk: Service(row.under_way, row.last or NEVER) for row in rows}


def _held(experiment_ids: set[int]) -> dict[Repeat, int]:
    """The node of each repeat that has begun, where it can still take runs; the latest, where it had to move."""
    attempts = Attempt.objects.filter(run__experiment_id__in=experiment_ids)
    working = attempts.filter(node__state__in=[NodeState.ONLINE, NodeState.BUSY]).order_by("pk")
    of_run = ("run__experiment_id", "run__repeat", "run__spec__chip_id", "run__spec__placement")
    rows = working.values_list(*of_run, "node_id")
    return {
        (experiment, repeat, group_of(stored_chips(chip, placement))): node
        for experiment, repeat, chip, placement, node in rows
        if placement  # a run whose spec can't be read ends by itself, and holds no other up
    }


def _assign_run(run_id: int, node_id: int) -> Attempt | None:
    """QUEUED → ASSIGNED; None where the run or the node was taken or stopped meanwhile."""
    queued = Run.objects.filter(pk=run_id, state=RunState.QUEUED)
    if not mark_busy(node_id):
        return None
    if not queued.update(state=RunState.ASSIGNED, attempts_made=F("attempts_made") + 1):
        Node.objects.filter(pk=node_id, state=NodeState.BUSY).update(state=NodeState.ONLINE)
        return None
    number = Run.objects.values_list("attempts_made", flat=True).get(pk=run_id)
    return Attempt.objects.create(run_id=run_id, number=number, node_id=node_id)
