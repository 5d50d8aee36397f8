"""POST /api/v1/experiments/{id}/cancel and /api/v1/runs/{id}/cancel."""

from __future__ import annotations

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import submit, team

from experiments.models import Experiment, Run
from labsite.accounts.models import Project, Role, User

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("served")]


@pytest.fixture
def experiment(project: Project, owner: User) -> Experiment:
    return submit(project, owner, repeats=2)


@pytest.fixture(params=["experiment", "run"])
def path(request: pytest.FixtureRequest, experiment: Experiment) -> str:
    run = Run.objects.filter(experiment=experiment).order_by("position")[0]
    return f"/experiments/{experiment.id}/cancel" if request.param == "experiment" else f"/runs/{run.id}/cancel"


def test_only_people_with_a_token_may(path: str) -> None:
    assert_people_only("POST", path)


def test_its_owner_may(path: str, owner: User) -> None:
    answer = Caller(owner).post(path)
    assert answer.status_code == 200
    assert answer.json()["state"] == "cancelled"
    assert owner.username in answer.json()["reason"]


def test_an_operator_of_the_project_may(path: str, project: Project) -> None:
    assert member(project, Role.OPERATOR).post(path).json()["state"] == "cancelled"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER])
def test_others_of_the_project_may_not(path: str, project: Project, role: Role) -> None:
    refused(member(project, role).post(path), 403)


def test_for_another_projects_operator_it_is_not_there(path: str) -> None:
    refused(member(team(), Role.OPERATOR).post(path), 404)


def test_cancelling_again_changes_nothing(path: str, owner: User) -> None:
    first, again = Caller(owner).post(path).json(), Caller(owner).post(path).json()
    assert (again["state"], again["ended_at"]) == ("cancelled", first["ended_at"])


def test_an_experiments_runs_end_with_it(experiment: Experiment, owner: User) -> None:
    answer = Caller(owner).post(f"/experiments/{experiment.id}/cancel").json()
    assert answer["counts"]["cancelled"] == 2
    assert [run["state"] for run in answer["trials"][0]["runs"]] == ["cancelled", "cancelled"]


def test_one_runs_end_leaves_the_others(experiment: Experiment, owner: User) -> None:
    run = Run.objects.filter(experiment=experiment)[0]
    Caller(owner).post(f"/runs/{run.id}/cancel")
    found = Caller(owner).get(f"/experiments/{experiment.id}").json()
    assert (found["state"], found["counts"]["cancelled"], found["counts"]["queued"]) == ("active", 1, 1)


@pytest.mark.parametrize("kind", ["experiments", "runs"])
def test_what_is_not_there_can_not_be_cancelled(kind: str, owner: User) -> None:
    refused(Caller(owner).post(f"/{kind}/999999999/cancel"), 404)
    refused(Caller(owner).post(f"/{kind}/abc/cancel"), 404)


def test_a_get_does_not_cancel(path: str, owner: User) -> None:
    answer = Caller(owner).get(path)
    refused(answer, 405)
    assert answer["Allow"] == "POST"
