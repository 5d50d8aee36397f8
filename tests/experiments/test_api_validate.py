"""POST /api/v1/experiments/validate."""

from __future__ import annotations

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import document, ready_node, team

from experiments.models import Experiment
from labsite.accounts.models import Role

pytestmark = pytest.mark.django_db

PATH = "/experiments/validate"


@pytest.fixture
def caller() -> Caller:
    ready_node()
    return member(team(), Role.VIEWER)


def test_only_people_with_a_token_may() -> None:
    assert_people_only("POST", PATH)


def test_a_good_document_is_answered_with_its_plan(caller: Caller) -> None:
    answer = caller.post(PATH, document(matrix={"engine.weights": ["bf16", "int8"]}, repeats=3))
    assert answer.status_code == 200
    body = answer.json()
    assert {warning["field"] for warning in body.pop("warnings")} == {"model", "workload.num_requests"}
    assert body == {
        "valid": True,
        "errors": [],
        "trials": [
            {"index": 0, "settings": {"engine.weights": "bf16"}, "label": ""},
            {"index": 1, "settings": {"engine.weights": "int8"}, "label": ""},
        ],
        "runs": 6,
        "runs_at_most": 6,
        "estimate": None,
    }
    assert not Experiment.objects.exists()


def test_a_bad_document_is_answered_with_its_faults(caller: Caller) -> None:
    body = caller.post(PATH, document(repeats=0, nonsense=1)).json()
    assert (body["valid"], body["runs"], body["trials"]) == (False, 0, [])
    assert {fault["field"] for fault in body["errors"]} == {"repeats", "nonsense"}


def test_what_is_not_there_is_told_too(caller: Caller) -> None:
    assert caller.post(PATH, document(model="gpt-17")).json()["errors"][0]["field"] == "model"


@pytest.mark.parametrize(("text", "told"), [("a: [", "line 1"), ("a: !x 1", "tags"), ("", "mapping")])
def test_half_written_yaml_is_told_and_no_error(caller: Caller, text: str, told: str) -> None:
    body = caller.post(PATH, text.encode() or b" ", "application/yaml").json()
    assert body["valid"] is False
    assert told in body["errors"][0]["message"]


def test_a_body_past_the_limit_is_refused(caller: Caller) -> None:
    refused(caller.post(PATH, document(question="x" * 70_000)), 413)


def test_another_kind_of_body_is_refused(caller: Caller) -> None:
    refused(caller.post(PATH, "name: x", "text/plain"), 415)


@pytest.mark.django_db(transaction=True)
def test_past_runs_of_the_project_give_an_estimate(finished: Experiment) -> None:
    answer = member(finished.project, Role.VIEWER).post(PATH, finished.document).json()
    estimate = answer["estimate"]
    assert 0 < estimate["low"] <= estimate["seconds"] <= estimate["high"]
    assert estimate["basis"].startswith("8 past runs of smollm2-135m-instruct on modelled nodes")
    assert member(team(), Role.VIEWER).post(PATH, finished.document).json()["estimate"] is None


def test_what_plans_its_own_runs_says_how_many_there_may_be(caller: Caller) -> None:
    until = {"until": {"metric": "output_throughput", "interval": 0.03, "max": 12}}
    body = caller.post(PATH, document(matrix={"engine.weights": ["bf16", "int8"]}, repeats=until)).json()
    assert (body["errors"], body["runs"], body["runs_at_most"]) == ([], 10, 24)
    load = {"maximize": "workload.arrival.max_concurrency", "low": 1, "high": 8}
    searching = document(matrix={"engine.weights": ["bf16", "int8"]}, search=load, slo={"ttft_s": 1.0})
    del searching["repeats"]
    body = caller.post(PATH, searching).json()
    assert (body["errors"], body["runs"], len(body["trials"])) == ([], 2, 2)
    assert 10 < body["runs_at_most"] < 40
