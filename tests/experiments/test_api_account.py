"""GET /api/v1/me and the caller's own tokens."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import person, team
from django.test import Client
from django.utils import timezone

from labsite.accounts.models import ApiToken, Membership, Project, Role, User
from labsite.accounts.tokens import create_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return team("one")


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


def in_days(days: float) -> str:
    return (timezone.now() + dt.timedelta(days=days)).isoformat()


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/me"), ("GET", "/tokens"), ("POST", "/tokens"), ("DELETE", "/tokens/1")]
)
def test_only_people_with_a_token_may(method: str, path: str) -> None:
    assert_people_only(method, path)


def test_me_says_who_asks_and_what_he_may_do_where(caller: Caller) -> None:
    assert caller.user
    Membership.objects.create(user=caller.user, project=team("two"), role=Role.ADMIN)
    team("elsewhere")
    me = caller.get("/me").json()
    assert (me["username"], me["is_superuser"]) == (caller.user.username, False)
    assert [(one["slug"], one["role"]) for one in me["projects"]] == [("one", "viewer"), ("two", "admin")]
    assert me["token"]["name"] == "test"


def test_a_superuser_is_admin_everywhere(project: Project) -> None:
    root = Caller(User.objects.create_superuser("root"))
    assert [one["role"] for one in root.get("/me").json()["projects"]] == ["admin"]


def test_a_session_has_no_token(project: Project) -> None:
    browser = Client()
    browser.force_login(person(project))
    assert browser.get("/api/v1/me").json()["token"] is None


def make(caller: Caller, **body: Any) -> dict[str, Any]:
    answer = caller.post("/tokens", body)
    assert answer.status_code == 201, answer.content
    assert answer["Cache-Control"] == "no-store"
    made: dict[str, Any] = answer.json()
    return made


def test_a_made_token_opens_the_api_and_is_shown_once(caller: Caller) -> None:
    made = make(caller, name="laptop")
    assert Caller(None, made["token"]).get("/me").json()["token"]["id"] == made["id"]
    listed = caller.get("/tokens").json()["items"]
    assert [token["name"] for token in listed] == ["laptop", "test"]
    assert not any("token" in token for token in listed)


def test_a_revoked_token_opens_nothing_and_revoking_twice_is_no_fault(caller: Caller) -> None:
    made = make(caller, name="laptop")
    assert [caller.delete(f"/tokens/{made['id']}").status_code for _ in range(2)] == [204, 204]
    refused(Caller(None, made["token"]).get("/me"), 401)
    live = caller.get("/tokens?live=true").json()["items"]
    assert [token["name"] for token in live] == ["test"]
    assert [token["id"] for token in caller.get("/tokens?live=false").json()["items"]] == [made["id"]]


def test_a_token_may_revoke_itself(caller: Caller) -> None:
    own = caller.get("/me").json()["token"]["id"]
    assert caller.delete(f"/tokens/{own}").status_code == 204
    refused(caller.get("/me"), 401)


@pytest.mark.parametrize("asking", [Role.ADMIN, None])
def test_anothers_tokens_are_not_there(caller: Caller, project: Project, asking: Role | None) -> None:
    boss = member(project, asking) if asking else Caller(User.objects.create_superuser("root"))
    other = ApiToken.objects.get(user=caller.user)
    refused(boss.delete(f"/tokens/{other.pk}"), 404)
    assert other.pk not in [token["id"] for token in boss.get("/tokens").json()["items"]]


def test_a_token_that_ends_makes_none_that_outlasts_it(project: Project) -> None:
    user = person(project)
    ending = Caller(user, create_token(user, "ending", timezone.now() + dt.timedelta(days=1)).plain)
    for later in (None, in_days(2)):
        (error,) = refused(ending.post("/tokens", {"name": "x", "expires_at": later}), 422)["errors"]
        assert error["field"] == "expires_at"
    assert make(ending, name="x", expires_at=in_days(0.5))["expires_at"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": 1}, "name"),
        ({"name": "x", "expires_at": "tomorrow"}, "expires_at"),
        ({"name": "x", "expires_at": "2031-01-01T00:00:00"}, "expires_at"),
        ({"name": "x", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"name": "x", "user": "root"}, "user"),
    ],
)
def test_a_bad_body_is_refused_with_its_field(caller: Caller, body: dict[str, Any], field: str) -> None:
    (error,) = refused(caller.post("/tokens", body), 422)["errors"]
    assert error["field"] == field
    assert ApiToken.objects.count() == 1
