"""The nodes: which there are, and one node with what it is, what it can do at most, and what it has done."""

from __future__ import annotations

from typing import Literal

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from experiments.api.catalog import NodeQuery, find_nodes
from experiments.api.paging import Page, PageQuery, read_page
from experiments.models import Attempt
from experiments.node_facts import ceilings_of, facts_of
from experiments.node_noise import noise_rows
from experiments.node_pools import links_of, pools_of, pools_told
from experiments.pages.access import person
from experiments.pages.listing import ask, list_context, take
from experiments.selectors import current_runs, readable_runs
from hardware.errors import HardwareError
from hardware.models import Node, NodeKind, NodeState
from hardware.node_actions import ACTIONS
from hardware.selectors import current_chips, nodes_operated_by, nodes_visible_to
from labsite.accounts.audit import entries_visible_to
from labsite.accounts.permissions import projects_of

CHANGES_SHOWN = 20
# Those that need no command to be shown are offered here, the others in the admin; each with what is said afterwards.
OFFERED = {
    "drain": "{} finishes the run it has and takes no other.",
    "resume": "{} takes runs again.",
    "retire": "{} is retired for good; its results stay.",
}


class AttemptQuery(PageQuery):
    sort: Literal["-assigned_at"] = "-assigned_at"


@login_required
def node_list(request: HttpRequest) -> HttpResponse:
    user = person(request)
    page, asked = take(ask(NodeQuery, request), lambda query: find_nodes(user, query))
    busy = current_runs([node.pk for node in page.items], user)
    context = {
        "section": "nodes",
        "rows": [{"node": node, "run_id": busy.get(node.pk), "pools": pools_told(node)} for node in page.items],
        "states": NodeState.values,
        "kinds": NodeKind.values,
        "chips": current_chips().order_by("chip_id").values_list("chip_id", flat=True)[:200],
        "projects": projects_of(user).order_by("slug").values_list("slug", flat=True)[:200],
        **list_context(asked, page.next),
    }
    return render(request, "experiments/nodes.html", context)


@login_required
def show_node(request: HttpRequest, slug: str) -> HttpResponse:
    user, node = person(request), _node_or_404(request, slug)
    page, asked = take(ask(AttemptQuery, request), lambda query: _attempts(request, node, query))
    context = {
        "section": "nodes",
        "node": node,
        "run_id": current_runs([node.pk], user).get(node.pk),
        "labels": {key: value for key, value in node.all_labels().items() if value},
        "facts": facts_of(node.facts),
        "ceilings": ceilings_of(node.ceilings),
        "noise": noise_rows(node.pk),
        "pools": pools_of(node),
        "links": links_of(node),
        "attempts": page.items,
        "operates": nodes_operated_by(user).filter(pk=node.pk).exists() and node.state != NodeState.RETIRED,
        "changes": entries_visible_to(user).filter(object_type="node", object_id=str(node.pk))[:CHANGES_SHOWN],
        **list_context(asked, page.next),
    }
    return render(request, "experiments/node.html", context)


@login_required
@require_POST
def change_node(request: HttpRequest, slug: str, action: str) -> HttpResponse:
    """Drains, resumes or retires it. Who sees the node but does not operate it is told so."""
    user, node = person(request), _node_or_404(request, slug)
    if action not in OFFERED:
        raise Http404
    if not nodes_operated_by(user).filter(pk=node.pk).exists():
        raise PermissionDenied(f"To {action} a node needs the role operator in its project.")
    try:
        ACTIONS[action].act(node, user)
    except HardwareError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, OFFERED[action].format(node.name))
    return redirect("node", node.slug)


def _attempts(request: HttpRequest, node: Node, query: AttemptQuery) -> Page[Attempt]:
    """Those of runs that the user may read, the latest first."""
    mine = Attempt.objects.filter(node=node, run__in=readable_runs(person(request)))
    rows = mine.select_related("run__experiment", "run__trial").defer(
        "report", "run__spec", "run__summary", "run__experiment__spec", "run__experiment__document"
    )
    return read_page(rows, {"assigned_at": "pk"}, query)


def _node_or_404(request: HttpRequest, slug: str) -> Node:
    node = nodes_visible_to(person(request)).filter(slug=slug).first()
    if node is None:
        raise Http404
    return node
