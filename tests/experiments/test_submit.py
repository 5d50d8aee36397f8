"""Submitting: one document becomes an experiment with all its runs, or nothing at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from control_plane import chip, document, person, ready_node, submit, team
from django.db import connection

from experiments.errors import IdempotencyConflict
from experiments.models import Experiment, Run, Trial
from experiments.services import Submission, submit_experiment, submit_once
from hardware.models import Node
from labsite.accounts.models import Role
from labsite.accounts.permissions import NotAMember, RoleTooLow
from runners.document import SpecError
from runners.spec import RunSpec

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def refused(**changes: Any) -> dict[str, tuple[str, Any]]:
    """Field → (message, allowed) of each fault; nothing may have been stored."""
    with pytest.raises(SpecError) as caught:
        submit(team(), **changes)
    assert not Experiment.objects.exists()
    return {error.field: (error.message, error.allowed) for error in caught.value.errors}


def test_every_cell_and_repeat_becomes_a_queued_run_with_a_frozen_spec() -> None:
    ready_node()
    experiment = submit(team(), matrix={"engine.max_num_seqs": [1, 8]}, repeats=3, seed=7)
    assert [trial.settings for trial in experiment.trials.all()] == [
        {"engine.max_num_seqs": 1},
        {"engine.max_num_seqs": 8},
    ]
    runs = list(experiment.runs.select_related("trial"))
    assert [run.position for run in runs] == list(range(6))
    assert {run.state for run in runs} == {"queued"}
    for run in runs:
        spec = RunSpec.model_validate(run.spec)
        assert (spec.run_id, spec.experiment_id) == (run.pk, experiment.pk)
        assert spec.engine.max_num_seqs == run.trial.settings["engine.max_num_seqs"]
        assert spec.model.sha256 and spec.code_revision != "unknown"
    seeds = {run.repeat: {other.spec["seed"] for other in runs if other.repeat == run.repeat} for run in runs}
    assert all(len(each) == 1 for each in seeds.values())
    assert len(set.union(*seeds.values())) == 3


def test_the_document_is_kept_as_sent_and_with_its_defaults() -> None:
    ready_node()
    sent = document()
    experiment = submit_experiment(person(project := team()), project, sent)
    experiment.refresh_from_db()
    assert experiment.document == sent
    assert experiment.spec["engine"]["block_size"] == 32


def test_an_unknown_model_is_refused_with_those_that_exist() -> None:
    ready_node()
    message, allowed = refused(model="gpt-9")["model"]
    assert "gpt-9" in message
    assert allowed["registered"] == ["smollm2-135m-instruct"]
    assert "llama-3-8b" in allowed["shapes, with random weights"]


def test_an_unknown_model_on_the_matrix_is_named_there() -> None:
    ready_node()
    assert "gpt-9" in refused(matrix={"model": ["smollm2-135m-instruct", "gpt-9"]})["matrix.model"][0]


def test_an_unknown_chip_is_refused_with_those_that_exist() -> None:
    ready_node(chip_id=chip("chip-a").chip_id)
    message, allowed = refused(chip="chip-z")["chip"]
    assert "chip-z" in message
    assert allowed == ["any", "chip-a"]


def test_requests_longer_than_the_model_takes_are_refused() -> None:
    ready_node()
    workload = document()["workload"] | {"input_len": {"dist": "fixed", "tokens": 8190}}
    message, allowed = refused(workload=workload)["workload.input_len"]
    assert "8222 tokens" in message and "8192" in allowed


def test_labels_that_no_node_has_are_refused_with_those_that_exist() -> None:
    ready_node("here", labels={"rack": "a"})
    message, allowed = refused(nodes={"labels": {"rack": "b"}})["nodes"]
    assert "rack: b" in message
    assert allowed == {"kind": ["measured"], "name": ["here"], "rack": ["a"]}


def test_a_retired_node_and_one_of_another_project_do_not_count() -> None:
    ready_node(project=team())
    retired = ready_node()
    Node.objects.filter(pk=retired.pk).update(state="retired")
    assert "nodes" in refused()


@pytest.mark.parametrize("state", ["registered", "lost", "draining", "busy"])
def test_a_node_that_may_come_back_is_enough(state: str) -> None:
    ready_node()
    Node.objects.update(state=state)
    assert submit(team()).runs.count() == 1


def test_a_modelled_node_is_not_what_a_document_gets_without_asking() -> None:
    chip("h100-sxm")
    ready_node("virtual", kind="modelled", chip_id="h100-sxm")
    message, _ = refused()["nodes"]
    assert "kind: measured" in message
    assert submit(team(), chip="h100-sxm").runs.count() == 1
    assert submit(team(), nodes={"labels": {"kind": "modelled"}}).runs.count() == 1


def test_measured_and_modelled_nodes_by_name_in_one_trial_are_refused() -> None:
    chip("h100-sxm")
    ready_node("virtual", kind="modelled", chip_id="h100-sxm")
    ready_node("real")
    message, allowed = refused(nodes={"names": ["real", "virtual"]})["nodes"]
    assert "must all be of one kind" in message
    assert allowed == [{"kind": "measured"}, {"kind": "modelled"}]


def test_all_faults_are_told_at_once() -> None:
    ready_node()
    faults = refused(chip="chip-z", matrix={"model": ["gpt-9", "smollm2-135m-instruct"]})
    assert set(faults) == {"chip", "matrix.model"}


def test_a_viewer_may_not_submit_and_a_stranger_sees_no_project() -> None:
    ready_node()
    project = team()
    with pytest.raises(RoleTooLow, match="needs the role researcher"):
        submit(project, person(project, Role.VIEWER))
    with pytest.raises(NotAMember):
        submit(project, person(team(), Role.ADMIN))
    assert not Experiment.objects.exists()


def test_the_same_key_and_document_give_the_same_experiment() -> None:
    ready_node()
    user = person(project := team())
    first = submit_experiment(user, project, document(), "key")
    assert submit_experiment(user, project, document(), "key") == first
    assert Experiment.objects.count() == Trial.objects.count() == Run.objects.count() == 1


def test_the_same_key_with_another_document_is_refused() -> None:
    ready_node()
    user = person(project := team())
    submit_experiment(user, project, document(), "key")
    with pytest.raises(IdempotencyConflict):
        submit_experiment(user, project, document(name="another"), "key")


def test_a_key_is_its_users_own() -> None:
    ready_node()
    project = team()
    first = submit_experiment(person(project), project, document(), "key")
    assert submit_experiment(person(project), project, document(), "key") != first


def test_the_same_key_sent_many_times_at_once_makes_one_experiment() -> None:
    ready_node()
    user = person(project := team())

    def send(_: int) -> Submission:
        try:
            return submit_once(user, project, document(), "key")
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as pool:
        done = list(pool.map(send, range(10)))
    assert len({one.experiment.pk for one in done}) == 1
    assert [one.created for one in done].count(True) == 1, "one of them made it, the others found it"
    assert Experiment.objects.count() == Run.objects.count() == 1
