"""The reaper: lost nodes, limits, messages sent again, and what a crash has left undone."""

from __future__ import annotations

import datetime as dt
import logging

import pytest
import redis
from control_plane import live_attempt, ready_node, store_report, submit, team
from django.utils import timezone
from pytest_django.fixtures import Settings

from experiments.models import Attempt, ControlHeartbeat, Experiment, Run
from experiments.services import claim, confirm_ended, place_runs, reap, reaping
from hardware.broker import node_prefix
from hardware.models import Node
from hardware.services import retire

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def later(seconds: float) -> dt.datetime:
    return timezone.now() + dt.timedelta(seconds=seconds)


def tick(until_s: float, step_s: float = 2.0) -> None:
    """The reaper's rounds from now to `until_s`, as the worker's schedule would call it."""
    start = timezone.now()
    for step in range(int(until_s / step_s) + 1):
        reap(start + dt.timedelta(seconds=step * step_s))


def running(**changes: object) -> tuple[Experiment, Attempt]:
    node = ready_node()
    experiment = submit(team(), **changes)
    place_runs()
    attempt = live_attempt(experiment.runs.get(position=0))
    claim(node, attempt.run_id, attempt.number)
    attempt.refresh_from_db()
    return experiment, attempt


def test_a_silent_node_is_lost_after_25_s_and_its_run_queued_again() -> None:
    _, attempt = running(retries=1)
    tick(24)
    assert (Node.objects.get().state, Run.objects.get().state) == ("busy", "running")
    tick(26)
    attempt.refresh_from_db()
    assert (Node.objects.get().state, attempt.state, Run.objects.get().state) == ("lost", "lost", "queued")
    assert attempt.reason == f"node {attempt.node.slug} is lost"


def test_a_node_that_speaks_is_not_lost() -> None:
    running()
    start = timezone.now()
    for step in range(0, 60, 2):
        now = start + dt.timedelta(seconds=step)
        Node.objects.update(last_seen_at=now - dt.timedelta(seconds=5))
        reap(now)
    assert (Node.objects.get().state, Run.objects.get().state) == ("busy", "running")


def test_time_in_which_the_reaper_was_down_is_not_held_against_nodes() -> None:
    running()
    reap()
    for after_s in (300, 302, 310, 318, 324):
        reap(later(after_s))
        assert Node.objects.get().state == "busy"
    reap(later(327))
    assert Node.objects.get().state == "lost"


def test_the_first_round_of_a_new_lab_holds_nothing_against_old_nodes() -> None:
    ready_node(seen_s_ago=3600)
    reap()
    assert Node.objects.get().state == "online"
    assert ControlHeartbeat.objects.get(name="reaper").seen_at <= timezone.now()


def test_the_run_of_a_retired_node_goes_elsewhere() -> None:
    experiment, attempt = running(retries=1)
    retire(attempt.node)
    other = ready_node()
    reap()
    assert live_attempt(experiment.runs.get()).node == other


def test_an_unclaimed_attempt_is_sent_again_after_10_s(redis_url: str) -> None:
    node = ready_node()
    submit(team())
    place_runs()
    queue = f"{node_prefix(node.slug)}runs"
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        reap(later(9))
        assert client.llen(queue) == 1
        client.delete(queue)  # the message is lost
        reap(later(11))
        assert client.llen(queue) == 1


def test_what_was_assigned_while_the_broker_was_down_is_sent_when_it_is_back(
    redis_url: str, settings: Settings
) -> None:
    node = ready_node()
    submit(team())
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    place_runs()
    reap(later(2))
    assert Attempt.objects.get().sent_at is None
    settings.REDIS_URL = redis_url
    reap(later(4))
    assert Attempt.objects.get().sent_at is not None
    with redis.Redis.from_url(redis_url) as client:
        assert client.llen(f"{node_prefix(node.slug)}runs") == 1


def test_a_claimed_attempt_is_not_sent_again(redis_url: str) -> None:
    _, attempt = running()
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        reap(later(12))
        assert client.llen(f"{node_prefix(attempt.node.slug)}runs") == 0


def test_what_a_node_never_claims_is_taken_from_it() -> None:
    ready_node()
    submit(team(), retries=1)
    place_runs()
    Attempt.objects.update(assigned_at=timezone.now() - dt.timedelta(seconds=121))
    Node.objects.update(last_seen_at=timezone.now())
    reap()
    lost, again = Attempt.objects.order_by("number")
    assert (lost.state, again.state) == ("lost", "assigned")
    assert "did not claim" in lost.reason


def test_a_run_past_its_time_limit_is_ordered_to_end_and_has_failed() -> None:
    _, attempt = running(budget={"max_run_seconds": 60}, retries=3)
    Attempt.objects.update(claimed_at=timezone.now() - dt.timedelta(seconds=59))
    reap()
    assert Run.objects.get().cancel_requested_at is None
    Attempt.objects.update(claimed_at=timezone.now() - dt.timedelta(seconds=61))
    reap()
    assert Run.objects.get().cancel_requested_at is not None
    assert confirm_ended(attempt.pk)
    run = Run.objects.get()
    assert (run.state, run.reason) == ("failed", "it ran longer than its time limit of 60 s")


def test_the_time_limit_counts_from_when_the_node_has_the_model() -> None:
    running(budget={"max_run_seconds": 60})
    Attempt.objects.update(claimed_at=timezone.now() - dt.timedelta(hours=1), phase="fetching")
    reap()
    assert Run.objects.get().cancel_requested_at is None
    Attempt.objects.update(phase="measuring", fetched_at=timezone.now() - dt.timedelta(seconds=59))
    reap()
    assert Run.objects.get().cancel_requested_at is None
    Attempt.objects.update(fetched_at=timezone.now() - dt.timedelta(seconds=61))
    reap()
    assert Run.objects.get().cancel_requested_at is not None


def test_a_run_past_its_limit_whose_events_are_still_on_their_way_waits_for_its_report() -> None:
    _, attempt = running(budget={"max_run_seconds": 60})
    Attempt.objects.update(claimed_at=timezone.now() - dt.timedelta(seconds=61))
    reap()
    assert not confirm_ended(attempt.pk, undelivered=True)
    store_report(attempt)
    reap()
    assert Run.objects.get().state == "succeeded"


def test_an_experiment_past_its_budget_is_stopped() -> None:
    experiment, attempt = running(repeats=3, budget={"max_seconds": 100})
    reap(later(99))
    experiment.refresh_from_db()
    assert experiment.state == "active"
    Node.objects.update(last_seen_at=later(101))
    reap(later(101))
    experiment.refresh_from_db()
    assert (experiment.state, experiment.reason) == ("cancelled", "its budget of 100 s is used up")
    assert list(experiment.runs.values_list("state", flat=True)) == ["running", "cancelled", "cancelled"]
    confirm_ended(attempt.pk)
    assert experiment.runs.get(position=0).state == "cancelled"


def test_a_queue_in_which_nothing_has_started_uses_up_no_budget() -> None:
    ready_node()
    experiment = submit(team(), budget={"max_seconds": 100})
    Node.objects.update(state="lost")
    reap(later(1000))
    experiment.refresh_from_db()
    assert experiment.state == "active"


def test_a_report_that_was_stored_just_before_a_crash_is_concluded() -> None:
    experiment, attempt = running()
    store_report(attempt)
    reap()
    experiment.refresh_from_db()
    run = Run.objects.get()
    assert (run.state, experiment.state) == ("succeeded", "done")
    assert run.summary is not None


def test_results_missed_in_a_crash_are_computed() -> None:
    _, attempt = running()
    store_report(attempt)
    Attempt.objects.update(state="succeeded")
    ended = timezone.now() - dt.timedelta(seconds=30)
    Run.objects.update(state="succeeded", final_attempt=attempt, ended_at=ended)
    reap()
    assert Run.objects.get().summary is not None
    assert Experiment.objects.get().state == "done"


def test_a_run_that_failed_with_its_node_is_invalid_and_says_why() -> None:
    _, attempt = running(retries=0)
    Node.objects.update(state="lost")
    reap()
    run = Run.objects.get()
    assert (run.state, run.valid, run.final_attempt_id) == ("failed", None, attempt.pk)
    reap(later(12))
    run = Run.objects.get()
    assert run.valid is False
    assert run.reasons


def test_a_run_that_can_not_be_summed_up_says_so_and_stops_nothing() -> None:
    experiment, attempt = running(repeats=2)
    store_report(attempt)
    Run.objects.filter(pk=attempt.run_id).update(spec={"time_limit_s": 900})  # a spec that nobody can read
    reap()
    run = Run.objects.get(pk=attempt.run_id)
    assert (run.state, run.valid, run.reasons) == ("succeeded", False, ["results_failed"])
    assert "could not be computed" in run.reason
    assert experiment.runs.get(position=1).state == "assigned"


def test_a_bad_row_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    _, broken = running()
    _, late = running(budget={"max_run_seconds": 60})
    Run.objects.filter(pk=broken.run_id).update(spec={})
    Attempt.objects.update(claimed_at=timezone.now() - dt.timedelta(seconds=61))
    with caplog.at_level(logging.ERROR, logger=reaping.__name__):
        reap()
    assert "could not see to" in caplog.text
    assert Run.objects.get(pk=late.run_id).cancel_requested_at is not None


def test_node_states_that_contradict_their_attempts_are_set_right() -> None:
    running()
    idle = ready_node()
    Node.objects.exclude(pk=idle.pk).update(state="online")
    Node.objects.filter(pk=idle.pk).update(state="busy")
    reap()
    assert Node.objects.get(pk=idle.pk).state == "online"
    assert Node.objects.exclude(pk=idle.pk).get().state == "busy"


def test_a_round_with_the_broker_down_does_the_rest(settings: Settings) -> None:
    running()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    tick(28)
    assert Node.objects.get().state == "lost"
