"""POST /api/v1/experiments/{id}/clone."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import document, submit, team

from experiments.models import Experiment
from labsite.accounts.models import AuditEntry, Project, Role, User

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("served")]
MATRIX = {"engine.weights": ["bf16", "int8"]}


@pytest.fixture
def original(project: Project, owner: User) -> Experiment:
    return submit(project, owner, matrix=MATRIX, tags=["one"])


@pytest.fixture
def path(original: Experiment) -> str:
    return f"/experiments/{original.pk}/clone"


def clone(caller: Caller, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
    answer = caller.post(path, body or {}, **headers)
    assert answer.status_code in (200, 201), answer.content
    made: dict[str, Any] = answer.json()
    return made


def test_a_clone_is_a_new_experiment_with_the_same_document(path: str, owner: User, original: Experiment) -> None:
    made = clone(Caller(owner), path)
    assert made["id"] != original.pk
    assert made["cloned_from"] == original.pk
    assert made["document"] == original.document
    assert (made["state"], made["counts"]["queued"]) == ("active", original.runs.count())


def test_a_clone_has_the_name_and_tags_that_the_original_has_now(path: str, owner: User) -> None:
    Experiment.objects.update(name="Renamed", tags=["two"], question="Why?")
    made = clone(Caller(owner), path)
    assert (made["name"], made["tags"], made["question"]) == ("Renamed", ["two"], "Why?")


def test_values_are_set_by_their_paths(path: str, owner: User) -> None:
    changes = {
        "workload.arrival.max_concurrency": 4,
        "engine.max_num_seqs": 3,
        "matrix.engine.weights": ["int8"],
        "matrix.engine.block_size": [16, 32],
        "tags": ["two"],
    }
    made = clone(Caller(owner), path, {"name": "Changed", "set": changes})
    assert made["name"] == "Changed" and made["tags"] == ["two"]
    assert made["spec"]["workload"]["arrival"]["max_concurrency"] == 4
    assert made["spec"]["engine"]["max_num_seqs"] == 3
    assert made["spec"]["matrix"] == {"engine.weights": ["int8"], "engine.block_size": [16, 32]}


def test_another_document_can_take_the_originals_place(path: str, owner: User, original: Experiment) -> None:
    made = clone(Caller(owner), path, {"document": document(name="Edited"), "set": {"repeats": 2}})
    assert (made["name"], made["cloned_from"], made["counts"]["queued"]) == ("Edited", original.pk, 2)


def test_cloning_is_on_record(path: str, owner: User, original: Experiment) -> None:
    made = clone(Caller(owner), path)
    entry = AuditEntry.objects.get(action="experiment.clone")
    assert (entry.object_id, entry.detail) == (str(made["id"]), {"runs": 2, "cloned_from": original.pk})


def test_the_same_key_makes_one_clone(path: str, owner: User) -> None:
    caller = Caller(owner)
    first = caller.post(path, {}, Idempotency_Key="k")
    again = caller.post(path, {}, Idempotency_Key="k")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    refused(caller.post(path, {"name": "Other"}, Idempotency_Key="k"), 409)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"set": {"engine.nonsense": 1}}, "engine.nonsense"),
        ({"set": {"name.first": "x"}}, "name.first"),
        ({"set": {"matrix.engine.weights": []}}, "matrix.engine.weights"),
        ({"set": {"repeats": 10**30}}, "set.repeats"),
        ({"set": {"workload": None}}, "workload"),
        ({"name": ""}, "name"),
        ({"name": "a\x00"}, "name"),
        ({"document": {}}, "name"),
        ({"documents": {}}, "documents"),
        ({"set": []}, "set"),
    ],
)
def test_a_clone_that_could_not_run_is_refused_whole(path: str, owner: User, body: dict[str, Any], field: str) -> None:
    errors = refused(Caller(owner).post(path, body), 422)["errors"]
    assert field in [error["field"] for error in errors]
    assert Experiment.objects.count() == 1


def test_only_people_with_a_token_may(path: str) -> None:
    assert_people_only("POST", path)


def test_any_researcher_of_the_project_may_and_the_clone_is_his(path: str, project: Project) -> None:
    other = member(project)
    assert other.user
    assert clone(other, path)["owner"] == other.user.username


def test_a_viewer_may_not_and_for_strangers_it_is_not_there(path: str, project: Project) -> None:
    refused(member(project, Role.VIEWER).post(path, {}), 403)
    refused(member(team(), Role.ADMIN).post(path, {}), 404)
