"""The start page: what runs now, what waits, which nodes there are, and the latest experiments."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from experiments.models import Run, RunState
from experiments.pages.access import person
from experiments.pages.rows import experiment_rows
from experiments.selectors import (
    current_runs,
    readable_experiments,
    recent_experiments,
    runs_on_nodes,
)
from experiments.waiting import explain_waiting
from hardware.models import NodeState
from hardware.selectors import nodes_visible_to
from labsite.accounts.models import Role
from labsite.accounts.permissions import projects_of

RECENT = 8
NODES_SHOWN = 30
IN_SERVICE = (NodeState.ONLINE, NodeState.BUSY)


@login_required
def home(request: HttpRequest) -> HttpResponse:
    return render(request, "experiments/home.html", {"section": "home", **_now(request)})


@login_required
def home_now(request: HttpRequest) -> HttpResponse:
    """The part of the start page that is asked for again every few seconds."""
    return render(request, "experiments/_now.html", _now(request))


def _now(request: HttpRequest) -> dict[str, Any]:
    user = person(request)
    serving = nodes_visible_to(user).exclude(state=NodeState.RETIRED)
    nodes = list(serving.order_by("name")[:NODES_SHOWN])
    busy = current_runs([node.pk for node in nodes], user)
    mine = Run.objects.filter(experiment__in=readable_experiments(user)).select_related("experiment", "trial")
    under_way = mine.filter(state__in=[RunState.ASSIGNED, RunState.RUNNING]).order_by("started_at")
    queued = mine.filter(state=RunState.QUEUED).order_by("id")
    next_up = list(queued[:RECENT])
    waiting = explain_waiting(next_up)
    return {
        "in_service": serving.filter(state__in=IN_SERVICE).count(),
        "node_count": serving.count(),
        "nodes": [{"node": node, "run_id": busy.get(node.pk)} for node in nodes],
        "under_way": runs_on_nodes(under_way[:20]),
        "queued": [{"run": run, "waiting": waiting[run.pk]} for run in next_up],
        "queued_count": queued.count(),
        "recent": experiment_rows(recent_experiments(user, RECENT)),
        "may_submit": projects_of(user, Role.RESEARCHER).exists(),
    }
