"""Pausing and resuming an experiment: what starts, what goes on, what ends, and who may."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import live_attempt, ready_node, store_report, submit, team
from django.db import connection
from django.utils import timezone

from experiments.models import Experiment, Run
from experiments.services import (
    cancel_experiment,
    claim,
    finish_attempt,
    lose_attempt,
    pause_experiment,
    place_runs,
    reap,
    resume_experiment,
)
from labsite.accounts.models import AuditEntry, Project, Role, User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


@pytest.fixture
def project() -> Project:
    """With a node that could serve it, were it there."""
    ready_node(seen_s_ago=3600)
    return team()


def states(experiment: Experiment) -> list[str]:
    return list(experiment.runs.order_by("position").values_list("state", flat=True))


def state(experiment: Experiment) -> str:
    experiment.refresh_from_db()
    return experiment.state


def test_a_paused_experiment_starts_nothing_until_it_is_resumed(project: Project, owner: User) -> None:
    experiment = submit(project, owner)
    pause_experiment(owner, experiment)
    ready_node()
    assert place_runs() == 0 and states(experiment) == ["queued"]
    resume_experiment(owner, experiment)
    assert place_runs() == 1 and states(experiment) == ["assigned"]


def test_other_experiments_go_on_meanwhile(project: Project, owner: User) -> None:
    held, other = submit(project, owner), submit(project, owner)
    pause_experiment(owner, held)
    ready_node()
    place_runs()
    assert (states(held), states(other)) == (["queued"], ["assigned"])


def test_a_run_that_was_given_out_goes_on_and_its_end_is_stored(project: Project, owner: User) -> None:
    ready_node()
    experiment = submit(project, owner, repeats=2)
    place_runs()
    attempt = live_attempt(experiment.runs.get(position=0))
    pause_experiment(owner, experiment)
    claim(attempt.node, attempt.run_id, attempt.number)
    store_report(attempt)
    finish_attempt(attempt.pk)
    assert states(experiment) == ["succeeded", "queued"]
    assert state(experiment) == "paused"


def test_a_lost_run_waits_in_the_queue_with_the_others(project: Project, owner: User) -> None:
    ready_node()
    experiment = submit(project, owner, retries=1)
    place_runs()
    pause_experiment(owner, experiment)
    lose_attempt(live_attempt(experiment.runs.get()).pk, "gone")
    ready_node()
    assert place_runs() == 0 and states(experiment) == ["queued"]


def test_a_paused_experiment_is_done_when_its_last_run_ends(project: Project, owner: User) -> None:
    ready_node()
    experiment = submit(project, owner)
    place_runs()
    attempt = live_attempt(experiment.runs.get())
    claim(attempt.node, attempt.run_id, attempt.number)
    pause_experiment(owner, experiment)
    store_report(attempt)
    finish_attempt(attempt.pk)
    assert state(experiment) == "done"


def test_a_paused_experiment_can_be_cancelled(project: Project, owner: User) -> None:
    experiment = submit(project, owner)
    pause_experiment(owner, experiment)
    cancel_experiment(owner, experiment)
    assert (state(experiment), states(experiment)) == ("cancelled", ["cancelled"])


def test_the_budget_of_time_does_not_count_the_pause(project: Project, owner: User) -> None:
    ready_node()
    experiment = submit(project, owner, repeats=2, budget={"max_seconds": 100})
    now = timezone.now()
    Run.objects.filter(position=0).update(state="succeeded", started_at=now - dt.timedelta(seconds=150))
    pause_experiment(owner, experiment)
    reap(now)
    assert state(experiment) == "paused", "it is over its time, but its clock stands still"
    Experiment.objects.update(paused_at=now - dt.timedelta(seconds=90))
    resume_experiment(owner, experiment)
    reap(now)
    assert state(experiment) == "active", "150 s less 90 s of pause are within 100 s"
    reap(now + dt.timedelta(seconds=60))
    assert state(experiment) == "cancelled"


@pytest.mark.parametrize("change", [pause_experiment, resume_experiment])
def test_what_has_ended_is_neither_paused_nor_resumed(project: Project, owner: User, change: object) -> None:
    experiment = submit(project, owner)
    cancel_experiment(owner, experiment)
    verb = "pause" if change is pause_experiment else "resume"
    body = refused(Caller(owner).post(f"/experiments/{experiment.pk}/{verb}"), 409)
    assert "cancelled" in body["detail"]


def test_doing_it_twice_changes_nothing_and_is_on_record_once(project: Project, owner: User) -> None:
    caller, experiment = Caller(owner), submit(project, owner)
    for verb, expected in (("pause", "paused"), ("resume", "active")):
        for _ in range(2):
            answer = caller.post(f"/experiments/{experiment.pk}/{verb}")
            assert (answer.status_code, answer.json()["state"]) == (200, expected)
        assert AuditEntry.objects.filter(action=f"experiment.{verb}").count() == 1


def test_pausing_and_placing_at_once_never_leave_a_paused_experiment_with_a_new_attempt(
    project: Project, owner: User
) -> None:
    for _ in range(5):
        experiment = submit(project, owner)
        ready_node()
        with ThreadPoolExecutor(2) as pool:
            placed = pool.submit(in_own_connection, place_runs)
            pool.submit(in_own_connection, pause_experiment, owner, experiment).result()
            after_pause = states(experiment)
            placed.result()
        assert states(experiment) == after_pause


def in_own_connection(act: object, *args: object) -> object:
    try:
        return act(*args)  # type: ignore[operator]
    finally:
        connection.close()


@pytest.mark.parametrize("verb", ["pause", "resume"])
class TestWhoMay:
    def test_only_people_with_a_token(self, project: Project, owner: User, verb: str) -> None:
        assert_people_only("POST", f"/experiments/{submit(project, owner).pk}/{verb}")

    def test_the_owner_and_operators(self, project: Project, owner: User, verb: str) -> None:
        path = f"/experiments/{submit(project, owner).pk}/{verb}"
        assert Caller(owner).post(path).status_code == 200
        assert member(project, Role.OPERATOR).post(path).status_code == 200

    def test_no_other_researcher_and_no_stranger(self, project: Project, owner: User, verb: str) -> None:
        path = f"/experiments/{submit(project, owner).pk}/{verb}"
        refused(member(project, Role.RESEARCHER).post(path), 403)
        refused(member(team(), Role.ADMIN).post(path), 404)
