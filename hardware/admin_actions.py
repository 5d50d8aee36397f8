"""What an operator does to selected nodes in the admin: each action asks first, then acts on one node after another."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html

from hardware.errors import HardwareError
from hardware.models import Node
from hardware.node_actions import ACTIONS, NodeAction, join_command

TEMPLATE = "admin/hardware/node/confirm_action.html"


def admin_actions() -> list[Callable[..., HttpResponse | None]]:
    """The actions as Django's admin takes them."""
    return [_as_admin_action(action) for action in ACTIONS.values()]


def _as_admin_action(action: NodeAction) -> Callable[..., HttpResponse | None]:
    def run(modeladmin: admin.ModelAdmin[Node], request: HttpRequest, nodes: QuerySet[Node]) -> HttpResponse | None:
        if "confirmed" not in request.POST:
            return _ask(modeladmin, request, nodes, action)
        for node in nodes:
            _act(request, node, action)
        return None

    run.__name__ = action.name
    described: Callable[..., HttpResponse | None] = admin.action(
        description=f"{action.title} selected nodes", permissions=["change"]
    )(run)
    return described


def _ask(
    modeladmin: admin.ModelAdmin[Node], request: HttpRequest, nodes: QuerySet[Node], action: NodeAction
) -> HttpResponse:
    context = {
        **modeladmin.admin_site.each_context(request),
        "title": f"{action.title} {nodes.count()} node(s)?",
        "action": action,
        "nodes": nodes,
        "checkbox_name": ACTION_CHECKBOX_NAME,
        "opts": modeladmin.opts,
    }
    return TemplateResponse(request, TEMPLATE, context)


def _act(request: HttpRequest, node: Node, action: NodeAction) -> None:
    try:
        token = action.act(node, request.user)
    except HardwareError as error:
        messages.error(request, f"{node}: {error.message}")
        return
    if token:
        tell_join_command(request, node, token)
    else:
        messages.success(request, f"{action.title}: {node}")


def tell_join_command(request: HttpRequest, node: Node, token: str) -> None:
    """Shows, once, the command that joins an agent as this node."""
    text = format_html(
        "To join a machine as {}, run this on it within 15 minutes. It is shown this once, and works once:<br>"
        "<code>{}</code>",
        node,
        join_command(request.build_absolute_uri("/"), token),
    )
    messages.warning(request, text)
