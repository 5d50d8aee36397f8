"""PATCH /api/v1/experiments/{id}: name, question, tags and priority."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import submit, team

from experiments.models import Experiment
from labsite.accounts.models import AuditEntry, Project, Role, User

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("served")]


@pytest.fixture
def experiment(project: Project, owner: User) -> Experiment:
    return submit(project, owner, question="Why?", tags=["one"])


@pytest.fixture
def path(experiment: Experiment) -> str:
    return f"/experiments/{experiment.pk}"


def test_what_is_sent_changes_and_the_rest_stays(path: str, owner: User, experiment: Experiment) -> None:
    body = {"name": "Größer?", "tags": ["a", "b"]}
    answer = Caller(owner).patch(path, body).json()
    assert (answer["name"], answer["tags"], answer["question"]) == ("Größer?", ["a", "b"], "Why?")
    assert answer["document"] == experiment.document


def test_texts_can_be_emptied_where_the_document_lets_them(path: str, owner: User) -> None:
    answer = Caller(owner).patch(path, {"question": "", "tags": []}).json()
    assert (answer["question"], answer["tags"]) == ("", [])


def test_nothing_sent_changes_nothing_and_is_not_on_record(path: str, owner: User) -> None:
    caller = Caller(owner)
    AuditEntry.objects.all().delete()
    assert caller.patch(path, {}).status_code == 200
    assert caller.patch(path, {"question": "Why?"}).status_code == 200
    assert not AuditEntry.objects.exists()


def test_the_record_says_what_was_there_before(path: str, owner: User) -> None:
    Caller(owner).patch(path, {"question": "How?"})
    entry = AuditEntry.objects.get(action="experiment.edit")
    assert entry.detail == {"before": {"question": "Why?"}, "after": {"question": "How?"}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": 5}, "name"),
        ({"question": "x" * 2001}, "question"),
        ({"tags": ["x" * 51]}, "tags.0"),
        ({"tags": [""]}, "tags.0"),
        ({"tags": ["a"] * 21}, "tags"),
        ({"tags": "a"}, "tags"),
        ({"priority": 101}, "priority"),
        ({"priority": -101}, "priority"),
        ({"priority": 10**30}, "priority"),
        ({"priority": "1"}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"priority": True}, "priority"),
        ({"nam": "x"}, "nam"),
        ({"state": "done"}, "state"),
    ],
)
def test_a_bad_value_is_refused_with_its_field_and_nothing_is_changed(
    path: str, project: Project, body: dict[str, Any], field: str
) -> None:
    before = Experiment.objects.values().get()
    errors = refused(member(project, Role.OPERATOR).patch(path, {"question": "New?", **body}), 422)["errors"]
    assert [error["field"] for error in errors] == [field]
    assert Experiment.objects.values().get() == before


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"name": NaN}', b"null"])
def test_a_body_that_is_no_object_is_refused(path: str, owner: User, body: bytes) -> None:
    caller = Caller(owner)
    answer = caller._client.patch(
        f"/api/v1{path}", body, content_type="application/json", headers={"Authorization": f"Bearer {caller.token}"}
    )
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"detail", "errors"}


def test_a_researcher_gives_his_own_a_priority_up_to_0_and_an_operator_any(
    path: str, owner: User, project: Project
) -> None:
    caller, operator = Caller(owner), member(project, Role.OPERATOR)
    assert "operator" in refused(caller.patch(path, {"priority": 1}), 403)["detail"]
    assert caller.patch(path, {"priority": -100}).json()["priority"] == -100
    assert operator.patch(path, {"priority": 100}).json()["priority"] == 100
    assert caller.patch(path, {"priority": 0}).json()["priority"] == 0


def test_only_people_with_a_token_may(path: str) -> None:
    assert_people_only("PATCH", path)


@pytest.mark.parametrize(("role", "status"), [(Role.VIEWER, 403), (Role.RESEARCHER, 403), (Role.OPERATOR, 200)])
def test_others_of_the_project_by_their_role(path: str, project: Project, role: Role, status: int) -> None:
    assert member(project, role).patch(path, {"question": "Mine?"}).status_code == status


def test_for_strangers_it_is_not_there(path: str) -> None:
    refused(member(team(), Role.ADMIN).patch(path, {"question": "Mine?"}), 404)
