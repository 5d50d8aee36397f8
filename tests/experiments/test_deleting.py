"""Deleting, restoring and purging an experiment: what is seen when, and what is left in the end."""

from __future__ import annotations

import datetime as dt

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import live_attempt, store_report, submit, team
from django.test import Client
from django.utils import timezone

from experiments.models import (
    RESTORABLE,
    Attempt,
    Experiment,
    IdempotencyKey,
    LogLine,
    RequestRecord,
    Run,
    Sample,
    StatusRecord,
    StepRecord,
    Trial,
)
from experiments.services import claim, delete_experiment, finish_attempt, place_runs, purge_deleted
from experiments.services.deleting import PURGED_AFTER
from labsite.accounts.models import AuditEntry, Project, Role, User

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("served")]


@pytest.fixture
def experiment(project: Project, owner: User) -> Experiment:
    return submit(project, owner, repeats=2)


@pytest.fixture
def path(experiment: Experiment) -> str:
    return f"/experiments/{experiment.pk}"


def listed(caller: Caller, query: str = "") -> list[int]:
    return [item["id"] for item in caller.get(f"/experiments{query}").json()["items"]]


def test_a_deleted_experiment_is_cancelled_and_seen_nowhere_but_among_the_deleted(
    path: str, owner: User, experiment: Experiment
) -> None:
    caller = Caller(owner)
    answer = caller.delete(path)
    assert (answer.status_code, answer.content) == (204, b"")
    experiment.refresh_from_db()
    assert (experiment.state, experiment.deleted_by) == ("cancelled", owner)
    assert set(experiment.runs.values_list("state", flat=True)) == {"cancelled"}
    assert listed(caller) == [] and listed(caller, "?deleted=true") == [experiment.pk]
    assert caller.get("/experiments?deleted=true").json()["items"][0]["deleted_at"] is not None


def test_a_deleted_experiment_and_its_runs_are_not_there_for_any_read_or_change(
    path: str, owner: User, experiment: Experiment
) -> None:
    caller, run, trial = Caller(owner), experiment.runs.all()[0], experiment.trials.get()
    browser = Client(raise_request_exception=False)
    browser.force_login(owner)
    delete_experiment(owner, experiment)
    for read in (path, f"/runs/{run.pk}", f"/runs/{run.pk}/log", f"/compare?experiment={experiment.pk}",
                 f"/compare?trials={trial.pk}", f"/runs/{run.pk}/export/requests.csv",
                 f"{path}/export/runs.csv"):  # fmt: skip
        refused(caller.get(read), 404)
    for change in ("cancel", "pause", "resume", "clone"):
        refused(caller.post(f"{path}/{change}"), 404)
    refused(caller.post(f"/runs/{run.pk}/cancel"), 404)
    refused(caller.patch(path, {"name": "x"}), 404)
    refused(caller.delete(path), 404)
    for page in (f"{path}/", f"{path}/results", f"/runs/{run.pk}/", f"/runs/{run.pk}/state"):
        assert browser.get(page).status_code == 404
    for page in ("/", "/experiments/", "/compare/", f"/compare/?trials={trial.pk}"):
        assert f"/experiments/{experiment.pk}/" not in browser.get(page).content.decode()
    assert caller.get("/runs").json()["items"] == []


def test_deleting_stops_what_runs(project: Project, owner: User) -> None:
    experiment = submit(project, owner)
    place_runs()
    attempt = live_attempt(experiment.runs.get())
    claim(attempt.node, attempt.run_id, attempt.number)
    delete_experiment(owner, experiment)
    assert experiment.runs.get().cancel_requested_at is not None


def test_a_restored_experiment_is_as_it_was_left(path: str, owner: User, project: Project) -> None:
    caller, done = Caller(owner), submit(project, owner)
    Experiment.objects.filter(pk=done.pk).update(state="done")
    for pk, state in ((done.pk, "done"), (int(path.split("/")[-1]), "cancelled")):
        caller.delete(f"/experiments/{pk}")
        answer = caller.post(f"/experiments/{pk}/restore").json()
        assert (answer["id"], answer["state"], answer["deleted_at"]) == (pk, state, None)
    assert len(listed(caller)) == 2


def test_restoring_what_is_not_deleted_changes_nothing(path: str, owner: User) -> None:
    assert Caller(owner).post(f"{path}/restore").json()["state"] == "active"
    assert not AuditEntry.objects.filter(action="experiment.restore").exists()


def test_after_30_days_there_is_nothing_to_restore(path: str, owner: User, experiment: Experiment) -> None:
    caller = Caller(owner)
    caller.delete(path)
    Experiment.objects.update(deleted_at=timezone.now() - RESTORABLE)
    assert listed(caller, "?deleted=true") == []
    refused(caller.post(f"{path}/restore"), 404)


def test_deleting_and_restoring_are_on_record(path: str, owner: User) -> None:
    caller = Caller(owner)
    caller.delete(path)
    caller.post(f"{path}/restore")
    deleted, restored = AuditEntry.objects.filter(object_type="experiment").order_by("id")[1:]
    assert (deleted.action, deleted.detail) == ("experiment.delete", {"cancelled": True})
    assert (restored.action, restored.user) == ("experiment.restore", owner)


def test_a_key_of_a_deleted_experiment_makes_no_other(project: Project, owner: User) -> None:
    from_key = {"Idempotency_Key": "k"}
    caller = Caller(owner)
    document = Experiment.objects.first() or submit(project, owner)
    made = caller.post("/experiments", document.document, **from_key).json()
    caller.delete(f"/experiments/{made['id']}")
    body = refused(caller.post("/experiments", document.document, **from_key), 409)
    assert "deleted" in body["detail"]


def test_a_purge_removes_what_was_deleted_long_ago_with_every_record(
    project: Project, owner: User, redis_url: str
) -> None:
    gone, kept, recent = (submit(project, owner) for _ in range(3))
    for experiment in (gone, kept, recent):
        run = experiment.runs.get()
        store_records(run.pk)
    IdempotencyKey.objects.create(user=owner, key="k", body_digest="x", experiment=gone)
    for experiment in (gone, recent):
        delete_experiment(owner, experiment)
    now = timezone.now()
    Experiment.objects.filter(pk=gone.pk).update(deleted_at=now - PURGED_AFTER - dt.timedelta(seconds=1))
    assert purge_deleted(now) == 1
    assert set(Experiment.objects.values_list("pk", flat=True)) == {kept.pk, recent.pk}
    assert Trial.objects.count() == Run.objects.count() == 2
    for kind in (RequestRecord, Sample, StepRecord, LogLine, StatusRecord):
        runs = set(kind.objects.values_list("run_id", flat=True))  # type: ignore[attr-defined]
        assert runs == {kept.runs.get().pk, recent.runs.get().pk}
    assert AuditEntry.objects.filter(action="experiment.purge", object_id=str(gone.pk)).exists()
    assert purge_deleted(now) == 0


def store_records(run_id: int) -> None:
    key = {"run_id": run_id, "attempt": 1, "seq": 1, "data": {}}
    RequestRecord.objects.create(**key, index=0, phase="measured", status="ok", sent_s=0.0)
    Sample.objects.create(**key, t_s=0.0)
    StepRecord.objects.create(**key, index=0, start_s=0.0)
    LogLine.objects.create(**key, level="info")
    StatusRecord.objects.create(**key, kind="status")


def test_a_purge_spares_what_a_node_still_works_for(project: Project, owner: User) -> None:
    experiment = submit(project, owner)
    place_runs()
    attempt = live_attempt(experiment.runs.get())
    claim(attempt.node, attempt.run_id, attempt.number)
    delete_experiment(owner, experiment)
    later = timezone.now() + PURGED_AFTER + dt.timedelta(minutes=1)
    assert purge_deleted(later) == 0
    store_report(attempt, "cancelled")
    finish_attempt(attempt.pk)
    assert purge_deleted(later) == 1
    assert not Attempt.objects.exists()


def test_clones_outlive_their_original(project: Project, owner: User) -> None:
    original = submit(project, owner)
    made = Caller(owner).post(f"/experiments/{original.pk}/clone").json()
    delete_experiment(owner, original)
    assert purge_deleted(timezone.now() + PURGED_AFTER + dt.timedelta(minutes=1)) == 1
    assert Caller(owner).get(f"/experiments/{made['id']}").json()["cloned_from"] is None


@pytest.mark.parametrize(("role", "status"), [(Role.VIEWER, 403), (Role.RESEARCHER, 403), (Role.OPERATOR, 204)])
def test_others_of_the_project_delete_by_their_role(path: str, project: Project, role: Role, status: int) -> None:
    assert member(project, role).delete(path).status_code == status


def test_others_of_the_project_restore_by_their_role(path: str, project: Project, owner: User) -> None:
    Caller(owner).delete(path)
    refused(member(project, Role.RESEARCHER).post(f"{path}/restore"), 403)
    refused(member(team(), Role.ADMIN).post(f"{path}/restore"), 404)
    assert member(project, Role.OPERATOR).post(f"{path}/restore").status_code == 200


def test_only_people_with_a_token_may(path: str) -> None:
    assert_people_only("DELETE", path)
    assert_people_only("POST", f"{path}/restore")
