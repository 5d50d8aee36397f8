"""The audit log: what an entry holds, and who reads it."""

from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from labsite.accounts.audit import entries_visible_to, record
from labsite.accounts.models import Membership, Project, Role, User
from labsite.accounts.origin import Origin, note_origin, origin, present_origin

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Team", slug="team")


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


def member(project: Project, role: Role) -> User:
    user = User.objects.create_user(f"{role.label}{project.pk}")
    Membership.objects.create(user=user, project=project, role=role)
    return user


def origins_seen(path: str, peer: str) -> list[Origin]:
    """What a view learns of its request."""
    seen: list[Origin] = []

    def answer(request: object) -> HttpResponse:
        seen.append(present_origin())
        return HttpResponse()

    note_origin(answer)(RequestFactory().get(path, REMOTE_ADDR=peer))  # type: ignore[arg-type]
    return seen


def test_an_entry_says_who_did_what_to_what_and_from_where(ada: User, project: Project) -> None:
    with origin(Origin("api", "192.0.2.1")):
        entry = record(ada, "project.rename", project, old="Group")
    entry.refresh_from_db()
    assert (entry.user, entry.username, entry.action) == (ada, "ada", "project.rename")
    assert (entry.object_type, entry.object_id, entry.object_name) == ("project", str(project.pk), "Team")
    assert (entry.via, entry.address, entry.project, entry.detail) == ("api", "192.0.2.1", project, {"old": "Group"})


def test_what_no_request_caused_comes_from_the_system(project: Project) -> None:
    entry = record(None, "project.purge", project)
    assert (entry.user, entry.username, entry.via, entry.address) == (None, "", "system", None)


def test_the_entry_outlives_its_user(ada: User, project: Project) -> None:
    entry = record(ada, "project.rename", project)
    ada.delete()
    entry.refresh_from_db()
    assert (entry.user, entry.username) == (None, "ada")


def test_an_admin_reads_the_entries_of_his_project_alone(ada: User, project: Project) -> None:
    other = Project.objects.create(name="Other", slug="other")
    mine, _ = record(ada, "a", project), record(ada, "b", other)
    record(ada, "c", ada)
    assert list(entries_visible_to(member(project, Role.ADMIN))) == [mine]
    assert not entries_visible_to(member(project, Role.OPERATOR)).exists()
    assert entries_visible_to(User.objects.create_superuser("root")).count() == 3


@pytest.mark.parametrize(
    ("path", "via"),
    [("/experiments/1/", "page"), ("/api/v1/runs/1", "api"), ("/admin/", "admin"), ("/api/v1/node/claim", "node")],
)
def test_the_origin_holds_while_the_request_is_answered(path: str, via: str) -> None:
    assert origins_seen(path, "2001:db8::1") == [Origin(via, "2001:db8::1")]
    assert present_origin() == Origin()


@pytest.mark.parametrize("peer", ["", "testclient", "1.2.3"])
def test_a_peer_without_an_address_has_none(peer: str) -> None:
    assert origins_seen("/", peer)[0].address is None
