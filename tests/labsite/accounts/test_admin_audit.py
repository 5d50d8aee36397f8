"""What is done in the admin is on record: people, roles, tokens and nodes; and the record can only be read."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from hardware.models import Node
from hardware.services import register_node
from labsite.accounts.audit import record
from labsite.accounts.models import AuditEntry, Membership, Project, Role, User

pytestmark = pytest.mark.django_db
LIST = reverse("admin:accounts_auditentry_changelist")


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="One", slug="one")


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def member(project: Project, role: Role) -> User:
    user = User.objects.create_user(f"person{User.objects.count()}")
    Membership.objects.create(user=user, project=project, role=role)
    return user


@pytest.fixture
def root() -> Client:
    return client_of(User.objects.create_superuser("root"))


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))


def test_a_changed_role_is_on_record(root: Client, project: Project) -> None:
    user = member(project, Role.VIEWER)
    membership = Membership.objects.get()
    body = {
        "name": "One",
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": membership.pk,
        "memberships-0-project": project.pk,
        "memberships-0-user": user.pk,
        "memberships-0-role": Role.OPERATOR.value,
    }
    assert root.post(reverse("admin:accounts_project_change", args=[project.pk]), body).status_code == 302
    entry = AuditEntry.objects.get()
    assert (entry.username, entry.action, entry.via, entry.project) == ("root", "project.change", "admin", project)
    assert "operator in One" in str(entry.detail["changes"])


def test_a_made_user_is_on_record_without_his_password(root: Client) -> None:
    body = {
        "username": "eve",
        "password1": "correct horse 1",
        "password2": "correct horse 1",
        "usable_password": "true",
    }
    inlines = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
    root.post(reverse("admin:accounts_user_add"), body | inlines)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_name) == ("user.add", "eve")
    assert "correct horse" not in str(entry.detail)


@pytest.mark.parametrize("action", ["drain", "resume", "retire", "issue_join_token"])
def test_each_action_on_a_node_is_on_record_with_who_did_it(root: Client, redis_url: str, action: str) -> None:
    node = register_node("bench", kind="measured")
    body = {"action": action, "_selected_action": [node.pk], "confirmed": "yes"}
    root.post(reverse("admin:hardware_node_changelist"), body)
    entry = AuditEntry.objects.get()
    assert (entry.username, entry.action, entry.object_id) == ("root", f"node.{action}", str(node.pk))


def test_rotating_credentials_is_on_record_with_the_new_token(root: Client, redis_url: str) -> None:
    node = register_node("bench", kind="measured")
    body = {"action": "rotate", "_selected_action": [node.pk], "confirmed": "yes"}
    root.post(reverse("admin:hardware_node_changelist"), body)
    assert actions() == ["node.rotate", "node.issue_join_token"]


def test_a_registered_node_is_on_record(root: Client) -> None:
    body = {"name": "Bench", "kind": "measured", "labels": "{}", "project": "", "chip": "", "usd_per_hour": ""}
    root.post(reverse("admin:hardware_node_add"), body)
    assert Node.objects.filter(name="Bench").exists()
    assert set(actions()) == {"node.add", "node.issue_join_token"}


def test_an_admin_reads_the_record_of_his_project_alone(project: Project) -> None:
    other = Project.objects.create(name="Other", slug="other")
    record(None, "project.first", project)
    foreign = record(None, "project.second", other)
    client = client_of(member(project, Role.ADMIN))
    page = client.get(LIST).content.decode()
    assert "project.first" in page and "project.second" not in page
    detail = reverse("admin:accounts_auditentry_change", args=[foreign.pk])
    assert client.get(detail).status_code == 302


def test_operators_do_not_read_the_record(project: Project) -> None:
    assert client_of(member(project, Role.OPERATOR)).get(LIST).status_code == 403


def test_nobody_changes_or_deletes_the_record(root: Client, project: Project) -> None:
    entry = record(None, "project.first", project)
    assert root.post(reverse("admin:accounts_auditentry_delete", args=[entry.pk]), {"post": "yes"}).status_code == 403
    assert root.post(reverse("admin:accounts_auditentry_change", args=[entry.pk]), {"action": "x"}).status_code == 403
    assert root.get(reverse("admin:accounts_auditentry_add")).status_code == 403
    entry.refresh_from_db()
    assert entry.action == "project.first"
