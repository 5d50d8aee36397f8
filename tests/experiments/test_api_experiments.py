"""GET /api/v1/experiments and /api/v1/experiments/{id}."""

from __future__ import annotations

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import ready_node, submit, team
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.models import Experiment
from experiments.services import place_runs
from labsite.accounts.models import Project, Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    ready_node("here")
    return team()


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


@pytest.fixture
def experiment(project: Project) -> Experiment:
    return submit(project, matrix={"engine.weights": ["bf16", "int8"]}, repeats=2)


def queries_of(caller: Caller, path: str) -> int:
    caller.get(path)  # the first use of a token in a minute writes when it was
    with CaptureQueriesContext(connection) as captured:
        assert caller.get(path).status_code == 200
    return len(captured)


# The list


def test_only_people_with_a_token_may_list() -> None:
    assert_people_only("GET", "/experiments")


def test_the_list_has_the_newest_first_with_its_counts(caller: Caller, project: Project) -> None:
    older, newer = submit(project), submit(project, repeats=3)
    page = caller.get("/experiments").json()
    assert [item["id"] for item in page["items"]] == [newer.id, older.id]
    assert page["items"][0]["counts"]["queued"] == 3
    assert page["next"] is None
    assert "trials" not in page["items"][0]


def test_the_list_goes_on_from_its_cursor(caller: Caller, project: Project) -> None:
    made = [submit(project).id for _ in range(5)]
    seen: list[int] = []
    cursor = ""
    while True:
        page = caller.get(f"/experiments?limit=2{cursor}").json()
        seen += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == made[::-1]


def test_an_empty_list_is_an_empty_page(caller: Caller) -> None:
    assert caller.get("/experiments").json() == {"items": [], "next": None}


def test_the_list_leaves_out_other_projects(caller: Caller) -> None:
    submit(team())
    assert caller.get("/experiments").json()["items"] == []


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=many", "cursor=x", "cursor=-1", f"cursor={2**63}"])
def test_a_bad_page_is_refused(caller: Caller, query: str) -> None:
    fault = refused(caller.get(f"/experiments?{query}"), 422)["errors"][0]
    assert fault["field"] == query.split("=")[0]


def test_the_list_costs_the_same_whatever_its_length(caller: Caller, project: Project) -> None:
    submit(project)
    few = queries_of(caller, "/experiments")
    for _ in range(4):
        submit(project, repeats=3)
    assert queries_of(caller, "/experiments") == few


# One


def test_only_people_with_a_token_may_read(experiment: Experiment) -> None:
    assert_people_only("GET", f"/experiments/{experiment.id}")


def test_an_experiment_is_read_with_its_trials_and_runs(caller: Caller, experiment: Experiment) -> None:
    place_runs()
    found = caller.get(f"/experiments/{experiment.id}").json()
    runs = [run for trial in found["trials"] for run in trial["runs"]]
    assert [trial["index"] for trial in found["trials"]] == [0, 1]
    assert sorted(run["position"] for run in runs) == [0, 1, 2, 3]
    placed = next(run for run in runs if run["state"] == "assigned")
    waiting = next(run for run in runs if run["state"] == "queued")
    assert (placed["node"], placed["modelled"], placed["attempts_made"], placed["valid"]) == ("here", False, 1, None)
    assert (waiting["node"], waiting["modelled"]) == (None, None)


def test_an_experiment_of_another_project_is_not_there(experiment: Experiment) -> None:
    refused(member().get(f"/experiments/{experiment.id}"), 404)


@pytest.mark.parametrize("bad", ["0", "999999999", "99999999999999999999999", "abc", "-1", "1.5"])
def test_a_bad_id_is_not_there(caller: Caller, bad: str) -> None:
    refused(caller.get(f"/experiments/{bad}"), 404)


def test_one_costs_the_same_whatever_its_size(caller: Caller, project: Project) -> None:
    small = submit(project)
    large = submit(project, matrix={"engine.max_num_seqs": list(range(1, 11))}, repeats=3)
    assert queries_of(caller, f"/experiments/{small.id}") == queries_of(caller, f"/experiments/{large.id}")
