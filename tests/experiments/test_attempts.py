"""How attempts end: by report, by the node's word, by loss; and what becomes of their runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from control_plane import live_attempt, ready_node, store_report, submit, team
from django.db import connection

from experiments.errors import ReportMissing
from experiments.models import Attempt, Experiment, Run
from experiments.services import claim, confirm_ended, finish_attempt, lose_attempt, place_runs
from hardware.models import Node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def running(**changes: object) -> tuple[Experiment, Attempt]:
    """A run that its node has claimed."""
    ready_node()
    experiment = submit(team(), **changes)
    place_runs()
    return experiment, claim_next(experiment)


def claim_next(experiment: Experiment) -> Attempt:
    attempt = Attempt.objects.select_related("node", "run").get(run__experiment=experiment, state="assigned")
    claim(attempt.node, attempt.run_id, attempt.number)
    return attempt


def report(attempt: Attempt, *args: object, **kwargs: object) -> Run:
    store_report(attempt, *args, **kwargs)  # type: ignore[arg-type]
    finish_attempt(attempt.pk)
    attempt.refresh_from_db()
    return Run.objects.get(pk=attempt.run_id)


def test_success_ends_attempt_run_and_experiment_and_frees_the_node() -> None:
    experiment, attempt = running()
    run = report(attempt)
    experiment.refresh_from_db()
    assert (attempt.state, run.state, experiment.state) == ("succeeded", "succeeded", "done")
    assert run.final_attempt_id == attempt.pk
    assert run.ended_at and attempt.ended_at and experiment.ended_at
    assert Node.objects.get(pk=attempt.node_id).state == "online"


def test_the_summary_of_an_ended_run_is_stored() -> None:
    _, attempt = running()
    run = report(attempt)
    assert run.summary is not None
    assert run.valid is False
    assert "too_few_requests" in run.reasons


def test_the_next_run_follows_at_once() -> None:
    experiment, attempt = running(repeats=2)
    report(attempt)
    following = Attempt.objects.get(run__experiment=experiment, state="assigned")
    assert following.run.repeat == 1
    experiment.refresh_from_db()
    assert experiment.state == "active"


def test_a_failure_that_is_no_use_to_retry_fails_the_run() -> None:
    _, attempt = running(retries=3)
    run = report(attempt, "failed", "the model's file is broken", retry=False)
    assert (attempt.state, run.state, run.reason) == ("failed", "failed", "the model's file is broken")


def test_a_failure_worth_a_retry_goes_back_to_the_queue_up_to_the_limit() -> None:
    experiment, attempt = running(retries=2)
    for number in (1, 2, 3):
        assert attempt.number == number
        run = report(attempt, "failed", "out of memory", retry=True)
        if number < 3:
            assert run.ended_at is None
            attempt = claim_next(experiment)
    assert (run.state, run.reason, run.attempts_made) == ("failed", "out of memory", 3)
    assert run.final_attempt_id == attempt.pk


def test_no_retry_is_made_where_none_is_allowed() -> None:
    _, attempt = running(retries=0)
    assert report(attempt, "failed", "out of memory", retry=True).state == "failed"


def test_a_cancel_that_nobody_asked_for_counts_as_a_loss() -> None:
    experiment, attempt = running(retries=1)
    run = report(attempt, "cancelled", "the agent was stopped")
    assert attempt.state == "cancelled"
    assert run.state == "assigned"
    assert claim_next(experiment).number == 2


def test_an_attempt_is_not_finished_before_its_report_is_stored() -> None:
    _, attempt = running()
    with pytest.raises(ReportMissing):
        finish_attempt(attempt.pk)
    attempt.refresh_from_db()
    assert attempt.state == "running"


def test_finishing_twice_changes_nothing() -> None:
    experiment, attempt = running(repeats=2)
    first = report(attempt)
    again = report(attempt)
    assert (first.state, first.ended_at, first.attempts_made) == (again.state, again.ended_at, again.attempts_made)
    assert Attempt.objects.filter(run__experiment=experiment).count() == 2


def test_finishing_at_the_same_moment_in_many_processes_counts_once() -> None:
    experiment, attempt = running(retries=5)
    store_report(attempt, "failed", "out of memory", retry=True)

    def finish(_: int) -> None:
        finish_attempt(attempt.pk)
        connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(finish, range(12)))
    assert Run.objects.get(pk=attempt.run_id).attempts_made == 2
    assert Attempt.objects.filter(run__experiment=experiment).count() == 2


def test_a_lost_attempt_sends_its_run_back_to_the_queue() -> None:
    experiment, attempt = running(retries=1)
    assert lose_attempt(attempt.pk, "node is lost")
    attempt.refresh_from_db()
    assert (attempt.state, attempt.reason) == ("lost", "node is lost")
    assert live_attempt(experiment.runs.get()).number == 2


def test_an_attempt_lost_past_the_limit_fails_its_run() -> None:
    _, attempt = running(retries=0)
    lose_attempt(attempt.pk, "node is lost")
    run = Run.objects.get(pk=attempt.run_id)
    assert (run.state, run.reason) == ("failed", "node is lost")


def test_losing_twice_loses_once() -> None:
    experiment, attempt = running(retries=3)
    assert lose_attempt(attempt.pk, "node is lost")
    assert not lose_attempt(attempt.pk, "node is lost")
    assert experiment.runs.get().attempts_made == 2


def test_the_late_report_of_a_lost_attempt_does_not_touch_the_run() -> None:
    experiment, attempt = running(retries=1)
    lose_attempt(attempt.pk, "node is lost")
    run = report(attempt)
    assert attempt.state == "lost"
    assert run.state == "assigned"
    current = claim_next(experiment)
    assert report(attempt).state == "running"
    assert report(current).state == "succeeded"
    assert Run.objects.get(pk=attempt.run_id).final_attempt_id == current.pk


def test_an_attempt_whose_report_was_stored_is_finished_rather_than_lost() -> None:
    _, attempt = running()
    store_report(attempt)
    assert lose_attempt(attempt.pk, "node is lost")
    assert Run.objects.get(pk=attempt.run_id).state == "succeeded"


def test_the_nodes_word_that_nothing_is_left_means_nothing_without_a_stop() -> None:
    _, attempt = running()
    assert not confirm_ended(attempt.pk)
    attempt.refresh_from_db()
    assert attempt.state == "running"
