"""What the tests of the state machine build: people, nodes that hold a lease, documents, and a node's report.

It plays the node's and the recorder's part through the same services and columns that they use.
"""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

from django.utils import timezone

from experiments.models import Attempt, Experiment, Run
from experiments.services import submit_experiment
from hardware.models import Chip, Node, NodeState
from hardware.services import register_node
from labsite.accounts.models import Membership, Project, Role, User
from runners.events import Report

_numbers = itertools.count(1)


def person(project: Project | None = None, role: Role = Role.RESEARCHER, **fields: Any) -> User:
    user = User.objects.create_user(username=f"person{next(_numbers)}", password=None, **fields)
    if project:
        Membership.objects.create(user=user, project=project, role=role)
    return user


def team(name: str | None = None) -> Project:
    name = name or f"team{next(_numbers)}"
    return Project.objects.create(name=name, slug=name)


def chip(chip_id: str = "test-chip") -> Chip:
    about = {"chip_id": chip_id, "name": chip_id, "vendor": "none", "kind": "other"}
    record = {
        **about,
        "year": 2024,
        "status": "shipping",
        "dense_tflops": {"bf16": 100.0},
        "memory": {"type": "HBM", "capacity_bytes": 80_000_000_000, "bandwidth_bytes_per_s": 2e12},
        "sources": [{"field": "*", "source": "made up for tests", "confidence": "low"}],
    }
    return Chip.objects.create(**about, record=record)


def ready_node(name: str | None = None, *, seen_s_ago: float = 0.0, **fields: Any) -> Node:
    """A node whose agent has just renewed its lease."""
    node = register_node(name or f"node{next(_numbers)}", kind=fields.pop("kind", "measured"), **fields)
    node.state = NodeState.ONLINE
    node.last_seen_at = timezone.now() - dt.timedelta(seconds=seen_s_ago)
    node.save()
    return node


def document(**changes: Any) -> dict[str, Any]:
    return {
        "name": "an experiment",
        "model": "smollm2-135m-instruct",
        "nodes": {},
        "workload": {
            "kind": "synthetic",
            "arrival": {"kind": "closed", "max_concurrency": 2},
            "num_requests": 4,
        },
        "repeats": 1,
        **changes,
    }


def submit(project: Project, user: User | None = None, **changes: Any) -> Experiment:
    return submit_experiment(user or person(project), project, document(**changes))


def live_attempt(run: Run) -> Attempt:
    return Attempt.objects.select_related("node", "run").get(run=run, state__in=["assigned", "running"])


def store_report(attempt: Attempt, outcome: str = "succeeded", error: str | None = None, retry: bool = False) -> None:
    """What the recorder's transaction leaves behind when it has stored an attempt's last event."""
    report = Report(outcome=outcome, error=error, retry=retry, events=1)  # type: ignore[arg-type]
    Attempt.objects.filter(pk=attempt.pk).update(report=report.model_dump(mode="json"), events=1, stored_seq=1)
