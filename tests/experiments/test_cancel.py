"""Cancelling: at once where nothing runs, by the node's word or the end of its lease where something does."""

from __future__ import annotations

import datetime as dt

import pytest
from control_plane import live_attempt, person, ready_node, store_report, submit, team
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments.models import Attempt, Experiment, Run
from experiments.services import (
    cancel_experiment,
    cancel_run,
    claim,
    confirm_ended,
    finish_attempt,
    lose_attempt,
    place_runs,
    reap,
)
from hardware.models import Node
from labsite.accounts.models import Role
from labsite.accounts.permissions import NotAMember, RoleTooLow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def cancelled_in_mid_run(**changes: object) -> tuple[Experiment, Attempt]:
    node = ready_node()
    experiment = submit(team(), **changes)
    place_runs()
    attempt = live_attempt(experiment.runs.get(position=0))
    claim(node, attempt.run_id, attempt.number)
    cancel_run(experiment.owner, attempt.run)
    attempt.refresh_from_db()
    return experiment, attempt


def test_a_queued_run_is_cancelled_at_once() -> None:
    ready_node()
    experiment = submit(team(), repeats=2)
    cancel_run(experiment.owner, experiment.runs.get(position=0))
    run = experiment.runs.get(position=0)
    assert (run.state, run.reason) == ("cancelled", f"cancelled by {experiment.owner.username}")
    assert run.ended_at is not None
    # what follows an ended run is the placing of the next
    assert experiment.runs.get(position=1).state == "assigned"


def test_an_assigned_run_is_cancelled_at_once_and_frees_its_node() -> None:
    ready_node()
    experiment = submit(team())
    place_runs()
    attempt = live_attempt(experiment.runs.get())
    cancel_run(experiment.owner, attempt.run)
    attempt.refresh_from_db()
    experiment.refresh_from_db()
    assert (attempt.state, attempt.run.state, experiment.state) == ("cancelled", "cancelled", "done")
    assert Node.objects.get().state == "online"


def test_a_running_run_is_cancelled_when_the_node_says_that_nothing_is_left() -> None:
    _, attempt = cancelled_in_mid_run()
    assert (attempt.state, Run.objects.get().state) == ("running", "running")
    assert confirm_ended(attempt.pk)
    attempt.refresh_from_db()
    run = Run.objects.get()
    assert (attempt.state, run.state, run.final_attempt_id) == ("cancelled", "cancelled", attempt.pk)
    assert Node.objects.get().state == "online"


def test_a_running_run_is_cancelled_when_its_report_says_so() -> None:
    _, attempt = cancelled_in_mid_run()
    store_report(attempt, "cancelled")
    finish_attempt(attempt.pk)
    run = Run.objects.get()
    assert run.state == "cancelled"
    assert run.reason.startswith("cancelled by")


def test_a_run_that_had_finished_before_the_cancel_reached_it_has_succeeded() -> None:
    _, attempt = cancelled_in_mid_run()
    store_report(attempt, "succeeded")
    finish_attempt(attempt.pk)
    assert Run.objects.get().state == "succeeded"


def test_a_cancelled_run_is_not_tried_again() -> None:
    _, attempt = cancelled_in_mid_run(retries=5)
    store_report(attempt, "failed", "killed", retry=True)
    finish_attempt(attempt.pk)
    assert Run.objects.get().state == "cancelled"


def test_a_cancelled_run_whose_node_is_lost_is_cancelled() -> None:
    _, attempt = cancelled_in_mid_run(retries=5)
    lose_attempt(attempt.pk, "node is lost")
    attempt.refresh_from_db()
    assert (attempt.state, Run.objects.get().state) == ("lost", "cancelled")


def test_a_cancelled_run_ends_when_its_nodes_lease_has_run_out() -> None:
    cancelled_in_mid_run()
    now = timezone.now()
    Run.objects.update(cancel_requested_at=now - dt.timedelta(seconds=60))
    Node.objects.update(last_seen_at=now - dt.timedelta(seconds=18))
    reap(now)
    assert Run.objects.get().state == "running"
    reap(now + dt.timedelta(seconds=3))
    assert Run.objects.get().state == "cancelled"


def test_events_stored_after_the_cancel_still_become_its_results() -> None:
    _, attempt = cancelled_in_mid_run()
    confirm_ended(attempt.pk)
    assert Run.objects.get().valid is None
    store_report(attempt, "cancelled")
    finish_attempt(attempt.pk)
    run = Run.objects.get()
    assert (run.state, run.valid) == ("cancelled", False)
    assert "cancelled" in run.reasons


def test_the_first_cancel_stands() -> None:
    experiment, attempt = cancelled_in_mid_run()
    first = Run.objects.get()
    cancel_run(person(experiment.project, Role.OPERATOR), first)
    again = Run.objects.get()
    assert (again.reason, again.cancel_requested_at) == (first.reason, first.cancel_requested_at)
    confirm_ended(attempt.pk)
    cancel_run(experiment.owner, again)
    assert Run.objects.get().reason == first.reason


def test_cancelling_an_experiment_stops_all_that_is_left_of_it() -> None:
    experiment, attempt = cancelled_in_mid_run(repeats=4)
    cancel_experiment(experiment.owner, experiment)
    experiment.refresh_from_db()
    assert (experiment.state, experiment.reason) == ("cancelled", f"cancelled by {experiment.owner.username}")
    assert list(experiment.runs.values_list("state", flat=True)) == ["running", *["cancelled"] * 3]
    confirm_ended(attempt.pk)
    assert set(experiment.runs.values_list("state", flat=True)) == {"cancelled"}
    experiment.refresh_from_db()
    assert experiment.state == "cancelled"


def test_cancelling_an_experiment_takes_no_more_queries_for_more_queued_runs() -> None:
    ready_node()
    costs = []
    for repeats in (2, 40):
        experiment = submit(team(), repeats=repeats)
        with CaptureQueriesContext(connection) as queries:
            cancel_experiment(experiment.owner, experiment)
        assert set(experiment.runs.values_list("state", "cancel_outcome")) == {("cancelled", "cancelled")}
        costs.append(len(queries))
    assert costs[0] == costs[1]


def test_an_experiment_that_has_ended_can_not_be_cancelled() -> None:
    experiment, attempt = cancelled_in_mid_run()
    confirm_ended(attempt.pk)
    cancel_experiment(experiment.owner, experiment)
    experiment.refresh_from_db()
    assert experiment.state == "done"


def test_a_cancel_that_was_cut_short_is_finished_by_the_reaper() -> None:
    ready_node()
    experiment = submit(team(), repeats=4)
    Experiment.objects.update(state="cancelled", reason="cancelled by someone")
    reap()
    assert set(experiment.runs.values_list("state", "reason")) == {("cancelled", "cancelled by someone")}


def test_a_researcher_cancels_his_own_an_operator_anyones() -> None:
    ready_node()
    experiment = submit(project := team(), repeats=2)
    run = experiment.runs.get(position=1)
    with pytest.raises(RoleTooLow, match="needs the role operator"):
        cancel_run(person(project), run)
    with pytest.raises(NotAMember):
        cancel_experiment(person(team(), Role.ADMIN), experiment)
    cancel_run(person(project, Role.OPERATOR), run)
    assert experiment.runs.get(position=1).state == "cancelled"
