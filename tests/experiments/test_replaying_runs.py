"""POST /runs/{id}/replay: the same run again, or a refusal that says what is not as it was."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import Caller, assert_people_only, member, refused
from modelled_node import finish_run

from experiments.models import Experiment, Run
from experiments.services import replaying
from experiments.services.follow_up import keep_results
from hardware.models import Chip, Node
from labsite.accounts.models import AuditEntry, Role, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(finished: Experiment, monkeypatch: pytest.MonkeyPatch) -> Run:
    """An ended run of code that has a clean revision, which is still this one."""
    run = finished.runs.order_by("position")[0]
    run.spec["code_revision"] = "abc"
    run.save()
    keep_results(run.pk)
    monkeypatch.setattr(replaying, "code_revision", lambda: "abc")
    run.refresh_from_db()
    return run


@pytest.fixture
def caller(researcher: User) -> Caller:
    return Caller(researcher)


def test_a_replay_has_the_same_spec_and_gives_the_same_figures(run: Run, caller: Caller, redis_url: str) -> None:
    response = caller.post(f"/runs/{run.pk}/replay")
    assert response.status_code == 201, response.content
    made = Experiment.objects.get(pk=response.json()["id"])
    assert made.cloned_from_id == run.experiment_id and made.runs.count() == 1
    again = made.runs.get()
    own = {"run_id", "experiment_id", "trial_index", "code_revision"}
    assert {key: value for key, value in again.spec.items() if key not in own} == {
        key: value for key, value in run.spec.items() if key not in own
    }
    assert finish_run(again, redis_url).state == "succeeded"
    keep_results(again.pk)
    again.refresh_from_db()
    assert again.summary["metrics"] == run.summary["metrics"]
    assert AuditEntry.objects.filter(action="run.replay").count() == 1


def test_other_code_or_weights_or_chip_refuses_it_and_can_be_allowed(
    run: Run, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "code_revision", lambda: "def")
    assert "code_revision was abc, is def" in refused(caller.post(f"/runs/{run.pk}/replay"), 409)["detail"]
    run.spec["model"]["sha256"] = "0" * 64
    run.save()
    body = refused(caller.post(f"/runs/{run.pk}/replay?allow=code_revision"), 409)
    assert "weights was 000000000000" in body["detail"] and "code_revision" not in body["detail"]
    node = Node.objects.get(attempts__run=run)
    assert node.chip is not None
    changed: dict[str, Any] = {**node.chip.record, "name": "another"}
    Chip.objects.filter(pk=node.chip_id).update(current=False)
    node.chip = Chip.objects.create(
        chip_id=node.chip.chip_id, version=node.chip.version + 1, name="another", vendor=node.chip.vendor,
        kind=node.chip.kind, record=changed,
    )  # fmt: skip
    node.save()
    body = refused(caller.post(f"/runs/{run.pk}/replay?allow=code_revision,weights"), 409)
    assert "chip was" in body["detail"]
    allowed = caller.post(f"/runs/{run.pk}/replay?allow=code_revision,weights,chip")
    assert allowed.status_code == 201
    refused(caller.post(f"/runs/{run.pk}/replay?allow=everything"), 422)


def test_a_node_that_is_gone_is_replaced_by_one_like_it_or_refuses(run: Run, caller: Caller) -> None:
    node = Node.objects.get(attempts__run=run)
    Node.objects.filter(pk=node.pk).update(state="retired")
    assert "none is like it" in refused(caller.post(f"/runs/{run.pk}/replay"), 409)["detail"]
    twin = Node.objects.create(name="twin", slug="twin", kind=node.kind, chip=node.chip, project=node.project)
    response = caller.post(f"/runs/{run.pk}/replay")
    assert response.status_code == 201, response.content
    assert Experiment.objects.get(pk=response.json()["id"]).spec["nodes"]["names"] == [twin.slug]


def test_a_dirty_checkout_is_never_the_same_code(run: Run, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    run.spec["code_revision"] = "abc-dirty"
    run.save()
    monkeypatch.setattr(replaying, "code_revision", lambda: "abc-dirty")
    refused(caller.post(f"/runs/{run.pk}/replay"), 409)


def test_only_researchers_of_the_project_may_replay_and_only_what_ran_here(run: Run, caller: Caller) -> None:
    assert_people_only("POST", f"/runs/{run.pk}/replay")
    refused(member().post(f"/runs/{run.pk}/replay"), 404)
    refused(member(run.experiment.project, Role.VIEWER).post(f"/runs/{run.pk}/replay"), 403)
    Run.objects.filter(pk=run.pk).update(imported={"tool": "vllm"})
    assert "imported" in refused(caller.post(f"/runs/{run.pk}/replay"), 409)["detail"]
