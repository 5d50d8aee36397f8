"""Runs a run again exactly: same frozen spec and seed, on the same node or one like it, as an experiment of its own.

What the run rested on is compared with what there is now; a difference in the code, the weights or the chip is refused
unless it is named as allowed, because the figures would then say something else. The replay is compared with its
original as any two trials are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction

from experiments.chosen_models import find_models
from experiments.errors import ExperimentError, WrongState
from experiments.models import RUN_ENDED, Attempt, Experiment, Run, Trial
from experiments.provenance import code_revision
from experiments.services.placing import request_placement
from hardware.models import Node, NodeState
from labsite.accounts.audit import record
from labsite.accounts.models import Role, User
from labsite.accounts.permissions import require
from runners.spec import ExperimentSpec, RunSpec

Aspect = Literal["code_revision", "weights", "chip", "node"]
ASPECTS: tuple[Aspect, ...] = ("code_revision", "weights", "chip")
"""Those that may be allowed to differ."""


@dataclass(frozen=True)
class Changed:
    """What is not as it was: `then` and `now` in words."""

    aspect: Aspect
    then: str
    now: str

    def __str__(self) -> str:
        return f"{self.aspect} was {self.then}, is {self.now}"


class ReplayRefused(ExperimentError):
    """A run can't be run again as it was: `changed` says why."""

    def __init__(self, run_id: int, changed: Collection[Changed]) -> None:
        told = "; ".join(map(str, changed))
        super().__init__(f"run {run_id} would not be the same run again: {told}")
        self.changed = tuple(changed)


def replay_run(user: User, run: Run, allowed: Collection[str] = ()) -> Experiment:
    """A new experiment of one run, queued. `run` has its experiment and trial. Raises AccessDenied, WrongState of a run
    that has not ended or was imported, ReplayRefused for what differs and is not in `allowed` (some of ASPECTS)."""
    require(user, run.experiment.project, Role.RESEARCHER, "replaying a run")
    attempt = _attempt(run)
    spec = RunSpec.model_validate(run.spec)
    nodes = _nodes(attempt)
    changed = [one for one in _changes(run.experiment, spec, attempt, nodes) if one.aspect not in allowed]
    if changed or not nodes:
        raise ReplayRefused(run.pk, changed or [Changed("node", _name(attempt), "gone, and none is like it")])
    document = _document(run, spec, nodes)
    with transaction.atomic():
        experiment = Experiment.objects.create(
            project=run.experiment.project,
            owner=user,
            name=document["name"],
            question=document["question"],
            tags=[],
            document=document,
            spec=ExperimentSpec.model_validate(document).model_dump(mode="json"),
            cloned_from=run.experiment,
        )
        trial = Trial.objects.create(experiment=experiment, index=0, settings=run.trial.settings, label=run.trial.label)
        again = Run.objects.create(experiment=experiment, trial=trial, repeat=run.repeat, position=0, spec={})
        frozen = spec.model_copy(
            update={
                "run_id": again.pk,
                "experiment_id": experiment.pk,
                "trial_index": 0,
                "code_revision": code_revision(),
            }
        )
        Run.objects.filter(pk=again.pk).update(spec=frozen.model_dump(mode="json"))
        record(user, "run.replay", run, project=run.experiment.project, experiment=experiment.pk)
        transaction.on_commit(request_placement)
    return experiment


def _attempt(run: Run) -> Attempt:
    """The final attempt with its node. Raises WrongState where there is none to repeat."""
    if run.imported is not None:
        raise WrongState(f"run {run.pk} was imported: what it ran on is not here")
    if run.state not in RUN_ENDED or run.final_attempt_id is None:
        raise WrongState(f"run {run.pk} is {run.state} and ran to no end: there is nothing to run again")
    return Attempt.objects.select_related("node__chip", "chip").get(pk=run.final_attempt_id)


def _nodes(attempt: Attempt) -> list[Node]:
    """Its own node; where that is retired, those of the same kind and chip."""
    node = attempt.node
    assert node is not None  # only imported attempts have none
    if node.state != NodeState.RETIRED:
        return [node]
    like = Node.objects.filter(kind=node.kind, chip=node.chip, project=node.project).exclude(chip=None)
    return list(like.exclude(state=NodeState.RETIRED).order_by("pk"))


def _name(attempt: Attempt) -> str:
    return attempt.node.slug if attempt.node else "unknown"


def _changes(experiment: Experiment, spec: RunSpec, attempt: Attempt, nodes: list[Node]) -> list[Changed]:
    found: list[Changed] = []
    revision = code_revision()
    if revision != spec.code_revision or revision.endswith("-dirty"):
        found.append(Changed("code_revision", spec.code_revision, revision))
    weights = _weights(experiment)
    if not spec.model.random_weights and weights != spec.model.sha256:
        found.append(Changed("weights", spec.model.sha256[:12], weights[:12] if weights else "not registered"))
    for node in nodes:
        if not _same_chip(attempt, node):
            then = f"{attempt.chip.chip_id} version {attempt.chip.version}" if attempt.chip else _cpu(attempt.report)
            now = f"{node.chip.chip_id} version {node.chip.version}" if node.chip else str(node.facts.get("chip"))
            found.append(Changed("chip", then, f"{now} on {node.slug}"))
    return found


def _weights(experiment: Experiment) -> str | None:
    """The hash that the experiment's model has now."""
    model = ExperimentSpec.model_validate(experiment.spec).model
    chosen = find_models([model]).get(model)
    return chosen.sha256 if chosen else None


def _same_chip(attempt: Attempt, node: Node) -> bool:
    """By the catalog's record where it was filed under one, else by what the agent found the machine to be."""
    if attempt.chip is not None:
        return node.chip_id == attempt.chip_id or (node.chip is not None and node.chip.record == attempt.chip.record)
    known = node.facts.get("chip")
    return known is None or _cpu(attempt.report) in ("unknown", known)


def _cpu(report: dict[str, Any] | None) -> str:
    return str((report or {}).get("facts", {}).get("chip") or "unknown")


def _document(run: Run, spec: RunSpec, nodes: list[Node]) -> dict[str, Any]:
    """The experiment's document with what the run's trial had set, and nothing left to vary."""
    kept = {
        key: value
        for key, value in run.experiment.spec.items()
        if key not in ("matrix", "exclude", "design", "baseline", "search", "tags", "nodes", "repeats")
    }
    own = spec.model_dump(mode="json")
    return {
        **kept,
        **{name: own[name] for name in ("engine", "placement", "workload", "slo", "cost", "quality") if name in own},
        "name": f"Replay of run {run.pk}: {run.experiment.name}"[:200],
        "question": f"Does run {run.pk} give the same figures when it is run again?",
        "nodes": {"labels": {}, "names": [node.slug for node in nodes]},
        "repeats": 1,
    }
