"""The admin of hardware: operators register nodes, watch them, and drain, resume, retire or rotate them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Max, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from hardware.admin_actions import admin_actions, tell_join_command
from hardware.admin_form import NodeForm
from hardware.chip_admin import ChipAdmin, as_json, is_operator
from hardware.models import Node
from hardware.selectors import nodes_operated_by
from hardware.services import issue_join_token
from labsite.accounts.admin_bases import LongList
from labsite.accounts.audited_admin import AuditedAdmin

__all__ = ["ChipAdmin", "NodeAdmin"]


@admin.register(Node)
class NodeAdmin(LongList, AuditedAdmin, admin.ModelAdmin):  # type: ignore[type-arg]
    """An operator sees and changes the nodes of his projects; a superuser every node. Nodes are never deleted."""

    form = NodeForm
    list_display = ("name", "state", "kind", "project", "chip_shown", "seen", "current_run", "usd_per_hour")
    list_filter = ("state", "kind")
    search_fields = ("name", "slug", "project__name", "project__slug", "chip__chip_id")
    actions = admin_actions()
    asked = ("name", "project", "kind", "chip", "pools", "links", "labels", "usd_per_hour")
    told = ("slug", "state", "draining", "seen", "current_run", "agent_version", "chip_shown")
    reported = ("ceilings_shown", "facts_shown", "models_shown")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Node]:
        live = Max("attempts__run_id", filter=Q(attempts__state__in=["assigned", "running"]))
        return nodes_operated_by(request.user).annotate(live_run=live).order_by("name")

    def get_autocomplete_fields(self, request: HttpRequest) -> tuple[str, ...]:
        # an operator chooses among the few projects that he operates; a superuser among all
        return ("chip", "project") if request.user.is_superuser else ("chip",)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return is_operator(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return is_operator(request)

    def has_change_permission(self, request: HttpRequest, obj: Node | None = None) -> bool:
        return is_operator(request) if obj is None else nodes_operated_by(request.user).filter(pk=obj.pk).exists()

    def has_view_permission(self, request: HttpRequest, obj: Node | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Node | None = None) -> bool:
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Node | None = None) -> Any:
        asked = (None, {"fields": self.asked})
        if obj is None:
            return (asked,)
        return (asked, ("State", {"fields": self.told}), ("Reported by its agent", {"fields": self.reported}))

    def get_readonly_fields(self, request: HttpRequest, obj: Node | None = None) -> tuple[str, ...]:
        # a node's kind decides what its agent does, and its results are marked by it
        return (*self.told, *self.reported, "kind") if obj else ()

    def get_form(self, request: HttpRequest, obj: Node | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        return type(form.__name__, (form,), {"person": request.user})

    def save_model(self, request: HttpRequest, obj: Node, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            tell_join_command(request, obj, issue_join_token(obj, by=request.user))

    @admin.display(description="chip")
    def chip_shown(self, node: Node) -> str:
        return str(node.chip or node.facts.get("chip") or "—")

    @admin.display(description="last seen", ordering="last_seen_at")
    def seen(self, node: Node) -> str:
        if node.last_seen_at is None:
            return "never"
        silent_s = (timezone.now() - node.last_seen_at).total_seconds()
        return f"{silent_s:.0f} s ago" if silent_s < 60 else f"{timesince(node.last_seen_at)} ago"

    @admin.display(description="current run")
    def current_run(self, node: Node) -> str:
        run_id = getattr(node, "live_run", None)
        return format_html('<a href="{}">run {}</a>', reverse("run", args=[run_id]), run_id) if run_id else "—"

    @admin.display(description="ceilings")
    def ceilings_shown(self, node: Node) -> SafeString:
        return as_json(node.ceilings)

    @admin.display(description="facts")
    def facts_shown(self, node: Node) -> SafeString:
        return as_json(node.facts)

    @admin.display(description="models")
    def models_shown(self, node: Node) -> SafeString:
        return as_json(node.models_held)
