"""place_runs: what the rule of placement says, written once, whatever happens at the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from control_plane import chip, live_attempt, ready_node, store_report, submit, team
from django.db import connection
from django.utils import timezone
from pytest_django.fixtures import Settings

from experiments.models import Attempt, Experiment, Run
from experiments.services import cancel_experiment, claim, finish_attempt, place_runs
from hardware.broker import node_prefix
from hardware.models import Node
from hardware.services import drain, mark_lost, resume

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def test_a_queued_run_is_assigned_and_its_node_told(redis_url: str) -> None:
    node = ready_node()
    experiment = submit(team())
    assert place_runs() == 1
    attempt = live_attempt(experiment.runs.get())
    assert (attempt.state, attempt.run.state, attempt.number, attempt.node) == ("assigned", "assigned", 1, node)
    assert attempt.sent_at is not None
    assert Node.objects.get().state == "busy"
    with redis.Redis.from_url(redis_url) as client:
        assert client.llen(f"{node_prefix(node.slug)}runs") == 1


def test_placing_again_changes_nothing() -> None:
    ready_node()
    submit(team(), repeats=3)
    assert place_runs() == 1
    assert place_runs() == 0
    assert Attempt.objects.count() == 1


def test_placing_in_many_processes_at_once_gives_each_run_and_node_one_attempt() -> None:
    for _ in range(4):
        ready_node()
    project = team()
    submit(project, repeats=5)
    submit(project, repeats=5)

    def place(_: int) -> int:
        try:
            return place_runs()
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(place, range(12))) == 4
    assert Attempt.objects.count() == Attempt.objects.values("run").distinct().count() == 4
    assert Attempt.objects.values("node").distinct().count() == 4
    assert set(Run.objects.filter(state="assigned").values_list("attempts_made", flat=True)) == {1}


def test_placing_against_cancelling_leaves_no_run_behind() -> None:
    for _ in range(3):
        ready_node()
    experiment = submit(team(), repeats=12)

    def place(_: int) -> None:
        place_runs()
        connection.close()

    def cancel() -> None:
        cancel_experiment(experiment.owner, experiment)
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        cancelling = pool.submit(cancel)
        list(pool.map(place, range(6)))
        cancelling.result()
    assert set(Run.objects.values_list("state", flat=True)) == {"cancelled"}
    assert not Attempt.objects.exclude(state="cancelled").exists()
    assert set(Node.objects.values_list("state", flat=True)) == {"online"}


def test_when_the_broker_is_down_the_assignment_stands(settings: Settings) -> None:
    ready_node()
    experiment = submit(team())
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert place_runs() == 1
    attempt = live_attempt(experiment.runs.get())
    assert (attempt.state, attempt.sent_at) == ("assigned", None)


def test_a_submission_stands_when_the_broker_is_down(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    ready_node()
    assert submit(team()).runs.get().state == "queued"


@pytest.mark.parametrize("state", ["registered", "draining", "lost", "retired"])
def test_a_node_that_is_not_online_gets_no_work(state: str) -> None:
    ready_node()
    submit(team())
    Node.objects.update(state=state)
    assert place_runs() == 0


def test_a_node_whose_lease_ran_out_gets_no_work_before_it_speaks_again() -> None:
    node = ready_node(seen_s_ago=16)
    submit(team())
    assert place_runs() == 0
    Node.objects.filter(pk=node.pk).update(last_seen_at=timezone.now())
    assert place_runs() == 1


def test_a_drained_node_ends_its_run_takes_no_other_and_is_resumed() -> None:
    node = ready_node()
    experiment = submit(team(), repeats=3)
    place_runs()
    attempt = live_attempt(experiment.runs.get(position=0))
    claim(node, attempt.run_id, 1)
    drain(node)
    assert Node.objects.get().state == "draining"
    store_report(attempt)
    finish_attempt(attempt.pk)
    assert place_runs() == 0
    resume(node, busy=False)
    assert place_runs() == 1


def test_a_node_of_another_project_gets_no_work() -> None:
    mine, theirs = team(), team()
    ready_node(project=mine)
    ready_node(project=theirs)
    experiment = submit(mine, repeats=2)
    assert place_runs() == 1
    assert Attempt.objects.get().node.project == mine
    assert experiment.runs.filter(state="queued").count() == 1


def test_a_chip_on_the_matrix_goes_to_nodes_of_that_chip_alone() -> None:
    for name in ("chip-a", "chip-b"):
        ready_node(chip_id=chip(name).chip_id)
    experiment = submit(team(), matrix={"chip": ["chip-a", "chip-b"]}, repeats=2)
    assert place_runs() == 2
    for attempt in Attempt.objects.select_related("node__chip", "run__trial"):
        assert attempt.node.chip is not None
        assert attempt.run.trial.settings == {"chip": attempt.node.chip.chip_id}
    assert experiment.runs.filter(state="queued").count() == 2


def test_a_small_experiment_need_not_wait_for_the_end_of_a_large_one() -> None:
    node, project = ready_node(), team()
    large, small = submit(project, repeats=6), submit(project, repeats=1)
    order: list[Experiment] = []
    for _ in range(3):
        place_runs()
        attempt = Attempt.objects.select_related("run__experiment").get(state="assigned")
        order.append(attempt.run.experiment)
        claim(node, attempt.run_id, attempt.number)
        store_report(attempt)
        finish_attempt(attempt.pk)
    assert order == [large, small, large]


def test_a_lost_nodes_word_counts_from_its_last_sign_of_life() -> None:
    node = ready_node()
    seen = node.last_seen_at
    assert seen is not None
    Node.objects.filter(pk=node.pk).update(last_seen_at=timezone.now())
    assert not mark_lost(node.pk, seen)
    assert Node.objects.get().state == "online"
