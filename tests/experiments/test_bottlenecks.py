"""What held a run up, as it is stored, shown and told, and the experiment that it suggests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_client import Caller, member
from control_plane import submit, team
from django.core.management import CommandError, call_command
from django.test import Client
from modelled_node import figure, finish_run, modelled_node, text_of

from experiments.bottlenecks import bottleneck_of, bottlenecks_by_trial, next_experiment
from experiments.models import Run
from experiments.selectors import trials_with_runs
from labsite.accounts.models import Role
from runners.document import parse_text
from runners.matrix import plan_experiment

pytestmark = pytest.mark.django_db(transaction=True)

ONE_SEAT: dict[str, Any] = {
    "chip": "h100-sxm",
    "engine": {"max_num_seqs": 1},
    "workload": {
        "kind": "synthetic",
        "input_len": {"dist": "fixed", "tokens": 32},
        "output_len": {"dist": "fixed", "tokens": 16},
        "arrival": {"kind": "closed", "max_concurrency": 12},
        "num_requests": 48,
    },
}


@pytest.fixture
def run(redis_url: str) -> Run:
    modelled_node()
    return finish_run(submit(team(), **ONE_SEAT).runs.get(), redis_url)


def signed_in(caller: Caller) -> Client:
    assert caller.user is not None
    browser = Client()
    browser.force_login(caller.user)
    return browser


def told_of(caller: Caller, path: str) -> Any:
    return json.loads(caller.get(path).content)


def test_the_bottleneck_is_stored_shown_and_told_with_what_to_try_next(run: Run) -> None:
    reader = member(run.experiment.project, Role.RESEARCHER)
    told = told_of(reader, f"/runs/{run.pk}")["bottleneck"]
    assert told["kind"] == "queue"
    assert told["modelled"] is True
    assert told["suggests"] == {"engine.max_num_seqs": [1, 2, 4]}
    assert [cause["score"] for cause in told["causes"]] == sorted((c["score"] for c in told["causes"]), reverse=True)
    assert told["causes"][0]["figures"]["waiting_seats"] == 1.0
    (trial,) = told_of(reader, f"/experiments/{run.experiment_id}")["trials"]
    assert trial["bottleneck"]["kind"] == "queue" and trial["bottleneck"]["runs"] == 1

    browser = signed_in(reader)
    page = browser.get(f"/runs/{run.pk}/")
    text = text_of(page)
    assert "What held it up" in text and "Queue: too few seats" in text
    assert "every seat was taken" in text and "engine.max_num_seqs: 1, 2, 4" in text
    assert figure(page, "ttft-parts")["data"]
    assert "Queue: too few seats" in text_of(browser.get(f"/experiments/{run.experiment_id}/"))

    opened = browser.get(f"/experiments/new/?run={run.pk}")
    document = parse_text(opened.context["document"])
    assert document["matrix"] == {"engine.max_num_seqs": [1, 2, 4]}
    assert len(plan_experiment(document).cells) == 3


def test_results_of_before_have_a_verdict_once_they_are_computed_again(run: Run) -> None:
    before = run.summary
    assert before is not None
    Run.objects.filter(pk=run.pk).update(summary={k: v for k, v in before.items() if k != "bottleneck"})
    run.refresh_from_db()
    assert bottleneck_of(run) is None
    assert next_experiment(run, modelled=True) is None
    assert bottlenecks_by_trial(trials_with_runs(run.experiment_id)) == {}
    call_command("results")
    run.refresh_from_db()
    assert run.summary == before
    call_command("results", str(run.pk))
    with pytest.raises(CommandError, match="no ended run 999999"):
        call_command("results", "999999")


def test_a_run_that_does_not_exist_suggests_nothing(run: Run) -> None:
    browser = signed_in(member(run.experiment.project, Role.RESEARCHER))
    assert browser.get("/experiments/new/?run=999999").status_code == 404
    assert browser.get("/experiments/new/?run=x").status_code == 200
