"""The start page: what runs now, what waits, which nodes there are; and the list of experiments."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from experiments.api.listing import ExperimentQuery, list_experiments
from experiments.api.paging import MAX_CURSOR
from experiments.errors import BadParameter
from experiments.models import RUN_ENDED, Experiment, Run, RunState
from experiments.pages.access import person
from experiments.selectors import (
    count_runs,
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
IN_SERVICE = (NodeState.ONLINE, NodeState.BUSY)
PAGE_SIZE = 30


@login_required
def home(request: HttpRequest) -> HttpResponse:
    return render(request, "experiments/home.html", {"section": "home", **_now(request)})


@login_required
def home_now(request: HttpRequest) -> HttpResponse:
    """The part of the start page that is asked for again every few seconds."""
    return render(request, "experiments/_now.html", _now(request))


def _now(request: HttpRequest) -> dict[str, Any]:
    user = person(request)
    nodes = [node for node in nodes_visible_to(user).order_by("name") if node.state != NodeState.RETIRED]
    busy = current_runs([node.pk for node in nodes], user)
    mine = Run.objects.filter(experiment__in=readable_experiments(user)).select_related("experiment", "trial")
    under_way = mine.filter(state__in=[RunState.ASSIGNED, RunState.RUNNING]).order_by("started_at")
    queued = mine.filter(state=RunState.QUEUED).order_by("id")
    next_up = list(queued[:RECENT])
    waiting = explain_waiting(next_up)
    return {
        "in_service": sum(node.state in IN_SERVICE for node in nodes),
        "nodes": [{"node": node, "run_id": busy.get(node.pk)} for node in nodes],
        "under_way": runs_on_nodes(under_way[:20]),
        "queued": [{"run": run, "waiting": waiting[run.pk]} for run in next_up],
        "queued_count": queued.count(),
        "recent": _rows(recent_experiments(user, RECENT)),
        "may_submit": projects_of(user, Role.RESEARCHER).exists(),
    }


@login_required
def experiment_list(request: HttpRequest) -> HttpResponse:
    user, cursor = person(request), request.GET.get("cursor", "")[:MAX_CURSOR]
    try:
        page = list_experiments(user, ExperimentQuery(cursor=cursor or None, limit=PAGE_SIZE))
    except BadParameter:
        # An address of another version, or one that was cut short, begins at the beginning.
        page = list_experiments(user, ExperimentQuery(limit=PAGE_SIZE))
    context = {"section": "experiments", "rows": _rows(page.items), "older": page.next, "newer": bool(cursor)}
    return render(request, "experiments/list.html", context)


def _rows(experiments: list[Experiment]) -> list[dict[str, Any]]:
    counts = count_runs(experiment.pk for experiment in experiments)
    rows = []
    for experiment in experiments:
        count = counts[experiment.pk]
        total, ended = sum(count.values()), sum(count[state] for state in RUN_ENDED)
        share = 100 * ended / total if total else 0
        rows.append({"experiment": experiment, "total": total, "ended": ended, "percent": share, "count": count})
    return rows
