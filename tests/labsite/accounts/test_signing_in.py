"""Signing in and out at the one place for it."""

from __future__ import annotations

import pytest
from django.test import Client

from labsite.accounts.models import AuditEntry, Membership, Project, Role, User

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
LOGIN = "/accounts/login/"


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", password=PASSWORD)


def browser(user: User) -> Client:
    client = Client(REMOTE_ADDR="192.0.2.7")
    assert client.post(LOGIN, {"username": user.username, "password": PASSWORD}).status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/api/v1/me").status_code == 200


def test_signing_in_is_on_record(ada: User) -> None:
    assert is_in(browser(ada))
    entry = AuditEntry.objects.get()
    assert (entry.user, entry.action, entry.via, entry.address) == (ada, "session.sign_in", "page", "192.0.2.7")


def test_a_wrong_password_begins_no_session(ada: User) -> None:
    client = Client()
    assert client.post(LOGIN, {"username": "ada", "password": "wrong"}).status_code == 200
    assert not is_in(client) and not AuditEntry.objects.exists()


@pytest.mark.parametrize("place", ["/accounts/logout/", "/admin/logout/"])
def test_signing_out_ends_the_session_and_is_on_record(ada: User, place: str) -> None:
    User.objects.update(is_superuser=True)
    client = browser(ada)
    assert client.post(place).status_code == 302
    assert not is_in(client)
    assert AuditEntry.objects.latest("id").action == "session.sign_out"


def test_the_admin_sends_strangers_to_the_one_place_to_sign_in() -> None:
    answer = Client().get("/admin/hardware/node/", follow=True)
    assert answer.redirect_chain[-1][0] == f"{LOGIN}?next=/admin/hardware/node/"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER])
def test_the_admin_tells_members_without_its_roles_so(ada: User, role: Role) -> None:
    project = Project.objects.create(name="One", slug="one")
    Membership.objects.create(user=ada, project=project, role=role)
    answer = browser(ada).get("/admin/", follow=True)
    assert answer.status_code == 403
    assert "operator or admin" in answer.content.decode()
