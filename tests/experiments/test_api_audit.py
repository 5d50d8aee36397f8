"""GET /api/v1/audit, and that what people do to experiments and runs is in it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import person, submit, team
from django.test import Client
from django.utils import timezone

from labsite.accounts.audit import record
from labsite.accounts.models import AuditEntry, Project, Role, User

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("served")]


@pytest.fixture
def admin(project: Project) -> Caller:
    return member(project, Role.ADMIN)


def entries(caller: Caller, query: str = "") -> list[dict[str, Any]]:
    answer = caller.get(f"/audit{query}")
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def actions(caller: Caller, query: str = "") -> list[str]:
    return [entry["action"] for entry in entries(caller, query)]


def test_only_people_with_a_token_may() -> None:
    assert_people_only("GET", "/audit")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER, Role.OPERATOR])
def test_only_admins_may(project: Project, role: Role) -> None:
    assert "admin" in refused(member(project, role).get("/audit"), 403)["detail"]


def test_what_is_done_to_an_experiment_is_there_with_who_how_and_from_where(project: Project, admin: Caller) -> None:
    owner = person(project)
    caller, experiment = Caller(owner), submit(project, owner, repeats=2)
    run = experiment.runs.all()[0]
    for path in (f"/runs/{run.pk}/cancel", *(f"/experiments/{experiment.pk}/{verb}"
                 for verb in ("pause", "resume", "cancel"))):  # fmt: skip
        assert caller.post(path).status_code == 200
    found = entries(admin, f"?actor={owner.username}&via=api")
    assert [entry["action"] for entry in found] == [
        "experiment.cancel", "experiment.resume", "experiment.pause", "run.cancel",
    ]  # fmt: skip
    assert all(entry["address"] == "127.0.0.1" and entry["project"] == project.slug for entry in found)
    assert found[-1]["object_id"] == str(run.pk)
    assert actions(admin, f"?object_type=experiment&object_id={experiment.pk}&via=system") == ["experiment.submit"]


def test_what_changed_nothing_is_not_there(project: Project, admin: Caller) -> None:
    experiment = submit(project)
    for _ in range(2):
        admin.post(f"/experiments/{experiment.pk}/cancel")
    assert actions(admin, "?action=experiment.cancel") == ["experiment.cancel"]


def test_what_is_done_on_a_page_says_so(project: Project, admin: Caller) -> None:
    owner = person(project)
    experiment = submit(project, owner)
    browser = Client()
    browser.force_login(owner)
    browser.post(f"/experiments/{experiment.pk}/cancel")
    assert entries(admin, "?action=experiment.cancel")[0]["via"] == "page"


def test_what_was_refused_is_not_there(project: Project, admin: Caller) -> None:
    experiment = submit(project)
    refused(member(project, Role.VIEWER).post(f"/experiments/{experiment.pk}/cancel"), 403)
    assert "experiment.cancel" not in actions(admin)


def test_another_projects_entries_are_for_its_admins_and_superusers(project: Project, admin: Caller) -> None:
    other = team()
    record(None, "project.rename", other)
    record(None, "session.sign_in", person())
    assert actions(admin) == []
    assert actions(member(other, Role.ADMIN)) == ["project.rename"]
    assert {"project.rename", "session.sign_in"} <= set(actions(Caller(User.objects.create_superuser("root"))))


def test_entries_are_filtered_by_action_project_and_time(project: Project, admin: Caller) -> None:
    record(None, "run.cancel", project)
    then = quote(timezone.now().isoformat())
    record(None, "run.export", project)
    assert actions(admin, "?action=run.") == ["run.export", "run.cancel"]
    assert actions(admin, f"?before={then}&action=run.") == ["run.cancel"]
    assert actions(admin, f"?after={then}&project={project.slug}&sort=at") == ["run.export"]


def test_entries_come_in_pages(project: Project, admin: Caller) -> None:
    for number in range(3):
        record(None, f"a{number}", project)
    first = admin.get("/audit?limit=2&action=a").json()
    rest = admin.get(f"/audit?limit=2&action=a&cursor={quote(first['next'])}").json()
    assert [entry["action"] for entry in [*first["items"], *rest["items"]]] == ["a2", "a1", "a0"]
    assert rest["next"] is None


def test_the_entries_go_with_a_refused_change(project: Project) -> None:
    """One transaction: a submission that fails leaves neither runs nor a word of it."""
    AuditEntry.objects.all().delete()
    refused(member(project).post("/experiments", {"name": "x"}), 422)
    assert not AuditEntry.objects.filter(action="experiment.submit").exists()
