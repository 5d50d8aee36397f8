"""The admin of registered models and webhooks: to be looked through, and what an operator does to them.

Both are made elsewhere: a model is described where its files are (`inference-lab models add`), a webhook's secret is
shown once by the API. Experiments and runs have pages of their own.
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from experiments.errors import ExperimentError
from experiments.models import RegisteredModel
from experiments.services.registering import register_model, retire_model
from experiments.services.webhooks import change_webhook, delete_webhook, try_webhook
from experiments.webhook_models import DeliveryState, Webhook, WebhookDelivery
from labsite.accounts.admin_bases import LongList, ReadOnly
from labsite.accounts.models import Role, User
from labsite.accounts.permissions import AccessDenied, has_role_anywhere, projects_of
from runners.display import size


class ByOperator:
    """Who operates nodes of some project sees it."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return has_role_anywhere(request.user, Role.OPERATOR)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return has_role_anywhere(request.user, Role.OPERATOR)


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def _pretty(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))


class Retired(admin.SimpleListFilter):
    title = "retired"
    parameter_name = "retired"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", "no"), ("yes", "yes")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[RegisteredModel]) -> QuerySet[RegisteredModel]:
        return queryset.filter(retired_at__isnull=self.value() == "no") if self.value() in ("no", "yes") else queryset


@admin.register(RegisteredModel)
class RegisteredModelAdmin(LongList, ByOperator, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "format", "size_shown", "created_by", "created_at", "retired_at", "page")
    list_filter = (Retired,)
    list_select_related = ("created_by",)
    search_fields = ("name", "entry__title", "entry__architecture")
    fields = ("name", "page", "created_by", "created_at", "retired_at", "entry_shown")
    readonly_fields = fields
    actions = ("retire", "take_back")

    @admin.display(description="format")
    def format(self, model: RegisteredModel) -> str:
        return str(model.entry.get("format", "–"))

    @admin.display(description="size")
    def size_shown(self, model: RegisteredModel) -> str:
        return size(sum(file.get("bytes", 0) for file in model.entry.get("files", [])))

    @admin.display(description="page")
    def page(self, model: RegisteredModel) -> str:
        return format_html('<a href="{}">files, shape, holders</a>', reverse("model", args=[model.name]))

    @admin.display(description="entry")
    def entry_shown(self, model: RegisteredModel) -> SafeString:
        return _pretty(model.entry)

    @admin.action(description="Retire the selected models", permissions=["view"])
    def retire(self, request: HttpRequest, queryset: QuerySet[RegisteredModel]) -> None:
        for model in queryset:
            _do(request, model.name, "retired", lambda model=model: retire_model(_person(request), model.name))

    @admin.action(description="Take the selected models back", permissions=["view"])
    def take_back(self, request: HttpRequest, queryset: QuerySet[RegisteredModel]) -> None:
        for model in queryset:
            _do(request, model.name, "taken back", lambda model=model: register_model(_person(request), model.entry))


class OfOwnProjects(ByOperator):
    """An operator sees what belongs to his projects. `project_path` leads from the model to the project."""

    project_path = "project"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)  # type: ignore[misc]
        return rows.filter(**{f"{self.project_path}__in": projects_of(request.user, Role.OPERATOR)})


@admin.register(Webhook)
class WebhookAdmin(LongList, OfOwnProjects, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    """The secret is shown nowhere."""

    list_display = ("url", "project", "events_shown", "active", "created_by", "created_at")
    list_filter = ("active",)
    list_select_related = ("project", "created_by")
    search_fields = ("url", "project__name", "project__slug")
    fields = ("url", "project", "events_shown", "active", "created_by", "created_at", "deliveries_shown")
    readonly_fields = fields
    actions = ("switch_on", "switch_off", "send_test", "remove")

    @admin.display(description="events")
    def events_shown(self, webhook: Webhook) -> str:
        return ", ".join(webhook.events)

    @admin.display(description="deliveries")
    def deliveries_shown(self, webhook: Webhook) -> str:
        address = reverse("admin:experiments_webhookdelivery_changelist")
        return format_html('<a href="{}?webhook__id__exact={}">all of them</a>', address, webhook.pk)

    @admin.action(description="Switch the selected webhooks on", permissions=["view"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for one in queryset:
            _do(request, one.url, "on", lambda one=one: change_webhook(_person(request), one, active=True))

    @admin.action(description="Switch the selected webhooks off", permissions=["view"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for one in queryset:
            _do(request, one.url, "off", lambda one=one: change_webhook(_person(request), one, active=False))

    @admin.action(description="Send a test to the selected webhooks", permissions=["view"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for one in queryset:
            _do(request, one.url, "a test is on its way", lambda one=one: try_webhook(_person(request), one))

    @admin.action(description="Remove the selected webhooks, with what is still to be sent", permissions=["view"])
    def remove(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for one in queryset:
            _do(request, one.url, "removed", lambda one=one: delete_webhook(_person(request), one))


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(LongList, OfOwnProjects, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    """What was sent, and what came of it."""

    project_path = "webhook__project"
    list_display = ("created_at", "event", "webhook", "state_shown", "attempts", "response_status", "error_shown")
    list_filter = ("state", "event")
    list_select_related = ("webhook",)
    search_fields = ("webhook__url", "event", "key")
    fields = ("webhook", "event", "key", "state", "attempts", "response_status", "error", "created_at", "delivered_at",
              "next_try_at", "payload_shown")  # fmt: skip
    readonly_fields = fields

    @admin.display(description="state", ordering="state")
    def state_shown(self, delivery: WebhookDelivery) -> str:
        return DeliveryState(delivery.state).label

    @admin.display(description="error")
    def error_shown(self, delivery: WebhookDelivery) -> str:
        return delivery.error[:120]

    @admin.display(description="payload")
    def payload_shown(self, delivery: WebhookDelivery) -> SafeString:
        return _pretty(delivery.payload)


def _do(request: HttpRequest, name: str, said: str, change: Any) -> None:
    """One after another, so that what is refused of one does not keep the others from it."""
    try:
        change()
    except (AccessDenied, ExperimentError) as error:
        messages.error(request, f"{name}: {error}")
    else:
        messages.success(request, f"{name}: {said}")
