"""POST /api/v1/experiments."""

from __future__ import annotations

import datetime as dt
import json

import pytest
import yaml
from api_client import Caller, assert_people_only, member, refused
from control_plane import document, person, team
from django.conf import settings
from django.test import Client
from django.utils import timezone

from experiments.models import Experiment, Run
from labsite.accounts.models import ApiToken, Membership, Project, Role
from labsite.accounts.tokens import create_token, revoke_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("served")]

PATH = "/experiments"


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project)


# Who may


def test_only_people_with_a_token_may() -> None:
    assert_people_only("POST", PATH)


def test_a_revoked_token_opens_nothing(caller: Caller, project: Project) -> None:
    made = create_token(person(project), "gone")
    revoke_token(made.record)
    refused(Caller(None, made.plain).post(PATH, document()), 401)


def test_an_expired_token_opens_nothing(project: Project) -> None:
    made = create_token(person(project), "old", expires_at=timezone.now() + dt.timedelta(hours=1))
    ApiToken.objects.update(expires_at=timezone.now())
    refused(Caller(None, made.plain).post(PATH, document()), 401)


def test_a_viewer_may_not(project: Project) -> None:
    body = refused(member(project, Role.VIEWER).post(PATH, document()), 403)
    assert "researcher" in body["detail"]
    assert not Experiment.objects.exists()


def test_a_role_taken_away_holds_at_once(caller: Caller, project: Project) -> None:
    assert caller.post(PATH, document()).status_code == 201
    Membership.objects.filter(user=caller.user).update(role=Role.VIEWER)
    refused(caller.post(PATH, document()), 403)


def test_a_project_of_others_is_refused_with_ones_own(caller: Caller, project: Project) -> None:
    other = team()
    fault = refused(caller.post(f"{PATH}?project={other.slug}", document()), 400)["errors"][0]
    assert (fault["field"], fault["allowed"]) == ("project", [project.slug])


def test_who_has_two_projects_says_which(caller: Caller, project: Project) -> None:
    other = team()
    Membership.objects.create(user=caller.user, project=other, role=Role.RESEARCHER)
    fault = refused(caller.post(PATH, document()), 400)["errors"][0]
    assert fault["allowed"] == sorted([project.slug, other.slug])
    assert caller.post(f"{PATH}?project={other.slug}", document()).json()["project"] == other.slug


def test_a_page_may_with_its_session_and_csrf_token(project: Project) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person(project))
    post = {"path": f"/api/v1{PATH}", "data": json.dumps(document()), "content_type": "application/json"}
    refused(client.post(**post), 403)
    token = client.get("/accounts/login/").cookies[settings.CSRF_COOKIE_NAME].value
    assert client.post(**post, headers={"X-CSRFToken": token}).status_code == 201


def test_a_wrong_token_is_not_made_up_for_by_a_session(project: Project) -> None:
    client = Client()
    client.force_login(person(project))
    answer = client.get(f"/api/v1{PATH}", headers={"Authorization": "Bearer lab_wrong"})
    refused(answer, 401)


# What it makes


def test_it_makes_the_experiment_its_trials_and_queued_runs(caller: Caller, project: Project) -> None:
    sent = document(matrix={"engine.weights": ["bf16", "int8"]}, repeats=2, question="Which?", tags=["a"])
    answer = caller.post(PATH, sent)
    made = answer.json()
    assert answer.status_code == 201
    assert (made["name"], made["question"], made["tags"], made["state"]) == ("an experiment", "Which?", ["a"], "active")
    assert (made["project"], made["owner"]) == (project.slug, caller.user.username)  # type: ignore[union-attr]
    assert made["counts"]["queued"] == 4
    assert [trial["settings"] for trial in made["trials"]] == [{"engine.weights": "bf16"}, {"engine.weights": "int8"}]
    assert [run["repeat"] for run in made["trials"][0]["runs"]] == [0, 1]
    assert made["document"] == sent
    assert made["spec"]["retries"] == 1
    assert made["url"].endswith(f"/experiments/{made['id']}/")
    assert Run.objects.filter(experiment_id=made["id"], state="queued").count() == 4


@pytest.mark.parametrize("kind", ["application/yaml", "text/yaml", "application/x-yaml", "text/yaml; charset=utf-8"])
def test_it_takes_yaml(caller: Caller, kind: str) -> None:
    assert caller.post(PATH, yaml.safe_dump(document()), kind).status_code == 201


# Sent twice


def test_the_same_request_with_a_key_makes_one_experiment(caller: Caller) -> None:
    first = caller.post(PATH, document(), Idempotency_Key="k1")
    again = caller.post(PATH, document(), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert Experiment.objects.count() == 1


def test_a_key_with_another_document_is_refused(caller: Caller) -> None:
    caller.post(PATH, document(), Idempotency_Key="k1")
    fault = refused(caller.post(PATH, document(repeats=2), Idempotency_Key="k1"), 409)["errors"][0]
    assert fault["field"] == "Idempotency-Key"
    assert Experiment.objects.count() == 1


def test_two_people_may_use_the_same_key(caller: Caller, project: Project) -> None:
    caller.post(PATH, document(), Idempotency_Key="k1")
    assert member(project).post(PATH, document(), Idempotency_Key="k1").status_code == 201


def test_a_refused_document_does_not_use_up_its_key(caller: Caller) -> None:
    refused(caller.post(PATH, document(repeats=0), Idempotency_Key="k1"), 422)
    assert caller.post(PATH, document(), Idempotency_Key="k1").status_code == 201


@pytest.mark.parametrize("key", ["k" * 201, "", "a\x00b", "é"])
def test_a_key_that_is_too_long_or_no_plain_text_is_refused(caller: Caller, key: str) -> None:
    assert refused(caller.post(PATH, document(), Idempotency_Key=key), 422)["errors"][0]["field"] == "Idempotency-Key"


# Bad bodies


def test_a_bad_document_is_refused_with_every_fault(caller: Caller) -> None:
    body = refused(caller.post(PATH, document(repeats=0, engine={"weights": "int3"}, nonsense=1)), 422)
    assert {fault["field"] for fault in body["errors"]} == {"repeats", "engine.weights", "nonsense"}
    weights = next(fault for fault in body["errors"] if fault["field"] == "engine.weights")
    assert {"bf16", "int8"} <= set(weights["allowed"])
    assert not Experiment.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": "gpt-17"}, "model"),
        ({"chip": "abacus"}, "chip"),
        ({"nodes": {"labels": {"room": "attic"}}}, "nodes"),
        ({"matrix": {"chip": ["any", "abacus"]}}, "matrix.chip"),
        ({"matrix": {"model": ["smollm2-135m-instruct", "gpt-17"]}}, "matrix.model"),
    ],
)
def test_what_is_not_there_is_refused(caller: Caller, changes: dict[str, object], field: str) -> None:
    body = refused(caller.post(PATH, document(**changes)), 422)
    assert [fault["field"] for fault in body["errors"]] == [field]
    assert body["errors"][0]["allowed"]


@pytest.mark.parametrize("body", ["{", '{"a": NaN}', '{"a": 1, "a": 2}', b"\xff\xfe"])
def test_a_body_that_is_no_json_is_refused(caller: Caller, body: str | bytes) -> None:
    refused(caller.post(PATH, body), 400)


def test_a_body_that_is_no_yaml_is_refused_with_its_place(caller: Caller) -> None:
    assert "line 1" in refused(caller.post(PATH, "a: [", "text/yaml"), 400)["errors"][0]["message"]


def test_yaml_with_tags_is_refused(caller: Caller) -> None:
    fault = refused(caller.post(PATH, "a: !!python/name:os.system x", "text/yaml"), 422)["errors"][0]
    assert "tags are not allowed" in fault["message"]


@pytest.mark.parametrize("body", ["[]", "3", "null", '"text"'])
def test_a_body_that_is_no_mapping_is_refused(caller: Caller, body: str) -> None:
    assert "mapping" in refused(caller.post(PATH, body), 422)["errors"][0]["message"]


def test_a_document_that_is_too_deep_is_refused(caller: Caller) -> None:
    assert "deep" in refused(caller.post(PATH, '{"a":' * 500 + "1" + "}" * 500), 422)["errors"][0]["message"]


def test_a_document_that_is_too_large_is_refused(caller: Caller) -> None:
    refused(caller.post(PATH, document(question="x" * 70_000)), 413)


def test_text_that_the_database_could_not_hold_is_refused(caller: Caller) -> None:
    assert refused(caller.post(PATH, document(name="a\x00b")), 422)["errors"][0]["field"] == "name"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_another_kind_of_body_is_refused(caller: Caller, kind: str) -> None:
    assert "application/json" in refused(caller.post(PATH, json.dumps(document()), kind), 415)["detail"]
