"""Every page of the admin with ten thousand rows of everything: none fails, grows with them, or asks for each."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from experiments.models import RegisteredModel
from experiments.webhook_models import Webhook, WebhookDelivery
from hardware.models import Chip, Node
from labsite.accounts.models import ApiToken, AuditEntry, Membership, Project, Role, User
from runners.models import REGISTRY

pytestmark = pytest.mark.django_db

MANY = 10_000
MOST_BYTES = 250_000
MOST_QUERIES = 40


def fill() -> None:
    entry = REGISTRY["smollm2-135m-instruct"].to_dict()
    numbers = range(MANY)
    users = User.objects.bulk_create(User(username=f"user{i}", password="!") for i in numbers)
    projects = Project.objects.bulk_create(Project(name=f"project {i}", slug=f"project-{i}") for i in numbers)
    # one project with everybody in it, and one person who is in every project
    Membership.objects.bulk_create(Membership(user=user, project=projects[0], role=Role.VIEWER) for user in users[1:])
    Membership.objects.bulk_create(Membership(user=users[0], project=one, role=Role.OPERATOR) for one in projects)
    ApiToken.objects.bulk_create(ApiToken(user=user, name="t", prefix="lab_", digest=user.username) for user in users)
    AuditEntry.objects.bulk_create(AuditEntry(action="a.b", object_type="node", via="api") for _ in numbers)
    chips = Chip.objects.bulk_create(
        Chip(chip_id=f"chip-{i}", name=f"Chip {i}", vendor="v", kind="gpu", record={}) for i in numbers
    )
    Node.objects.bulk_create(
        Node(name=f"n{i}", slug=f"n{i}", project=projects[i], chip=chips[i], last_seen_at=timezone.now())
        for i in numbers
    )
    RegisteredModel.objects.bulk_create(RegisteredModel(name=f"m{i}", entry=entry | {"name": f"m{i}"}) for i in numbers)
    hooks = Webhook.objects.bulk_create(
        Webhook(project=projects[i], url=f"https://example.org/{i}", secret="s", events=["x"]) for i in numbers
    )
    WebhookDelivery.objects.bulk_create(WebhookDelivery(webhook=hook, event="x", key="k", payload={}) for hook in hooks)
    with connection.cursor() as cursor:
        # As autovacuum does within a minute of so many new rows; until then the planner takes the tables for empty.
        cursor.execute("ANALYZE")


def pages_of(model: type[Model]) -> list[str]:
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    first = model._default_manager.order_by("pk").first()
    assert first is not None
    pages = [
        reverse(f"{name}_changelist"),
        reverse(f"{name}_changelist") + "?q=1",
        reverse(f"{name}_changelist") + "?p=9",
    ]
    return [*pages, reverse(f"{name}_change", args=[first.pk]), reverse(f"{name}_add")]


def measure(client: Client, page: str) -> dict[str, Any]:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(page)
    return {"status": answer.status_code, "bytes": len(answer.content), "queries": len(queries)}


def test_no_page_of_the_admin_minds_ten_thousand_rows():
    fill()
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    client.get("/admin/")
    models = [one for one in admin.site._registry if one._meta.app_label in ("accounts", "experiments", "hardware")]
    assert len(models) >= 10
    found = {page: measure(client, page) for model in models for page in pages_of(model)}
    # what can't be added there is refused
    assert {page: one for page, one in found.items() if one["status"] not in (200, 302, 403)} == {}
    assert {page: one for page, one in found.items() if one["status"] != 200 and not page.endswith("/add/")} == {}
    assert {page: one for page, one in found.items() if one["bytes"] > MOST_BYTES} == {}
    assert {page: one for page, one in found.items() if one["queries"] > MOST_QUERIES} == {}
    operator = Client()
    operator.force_login(User.objects.get(username="user1"))
    Membership.objects.filter(user__username="user1").update(role=Role.OPERATOR)
    for page in ("/admin/", reverse("admin:hardware_node_changelist"), reverse("admin:hardware_node_add")):
        assert measure(operator, page)["status"] == 200
