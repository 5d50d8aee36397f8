"""Experiments that plan their own next runs, on Postgres: what is added, when they end, and nothing comes twice."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import pytest
from control_plane import ready_node, submit
from django.db import OperationalError, connection
from django.utils import timezone
from searching import LOAD, end, open_runs, search_through, submit_search

from experiments.models import ExperimentState, Run
from experiments.search.stored import searches_of
from experiments.services import cancel_experiment, clone_experiment, pause_experiment, reap
from experiments.services.extending import extend_experiment
from experiments.services.follow_up import settle_experiment
from labsite.accounts.models import Project
from runners.document import SpecError
from runners.matrix import requests_seed

UNTIL = {"until": {"metric": "output_throughput", "interval": 0.03, "max": 4, "min": 2}}

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]


def test_a_search_begins_with_its_lowest_level(project: Project) -> None:
    ready_node()
    experiment = submit_search(project)
    (run,) = experiment.runs.all()
    assert run.trial.settings == {LOAD: 1} and run.spec["workload"]["arrival"]["max_concurrency"] == 1
    assert run.spec["seed"] == requests_seed(0, 0) and run.position == 0


def test_it_goes_on_run_by_run_and_is_done_when_its_answer_is_confirmed(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project)
    search_through(experiment, node, limit=5)
    assert experiment.state == ExperimentState.DONE
    assert experiment.outcome == "5 users at once hold; an upper bound was measured at 6: the objective was not met"
    assert [one.settings[LOAD] for one in experiment.trials.all()] == [1, 2, 4, 8, 6, 5]
    runs = list(experiment.runs.order_by("position"))
    assert [run.position for run in runs] == list(range(len(runs))) and len(runs) == 8
    assert {(run.repeat, run.spec["seed"]) for run in runs} == {(0, requests_seed(0, 0)), (1, requests_seed(0, 1))}
    found = searches_of(experiment)
    assert found is not None
    (course,) = found.as_json()["courses"]
    assert (course["low"], course["high"]) == (5, 6)


def test_each_combination_of_a_matrix_searches_by_itself(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project, matrix={"engine.max_num_seqs": [8, 16]})
    first, second = open_runs(experiment)
    end(first, node)
    assert settle_experiment(experiment.pk) is False
    added = [run for run in open_runs(experiment) if run.pk != second.pk]
    assert [run.trial.settings for run in added] == [{**first.trial.settings, LOAD: 2}]


def test_asked_again_it_adds_nothing(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project)
    end(open_runs(experiment)[0], node)
    assert extend_experiment(experiment.pk) is True
    assert extend_experiment(experiment.pk) is True
    assert experiment.runs.count() == 2


def test_a_run_without_results_yet_is_waited_for(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project)
    (run,) = open_runs(experiment)
    end(run, node)
    Run.objects.filter(pk=run.pk).update(valid=None, summary=None)
    assert settle_experiment(experiment.pk) is False
    assert experiment.runs.count() == 1
    experiment.refresh_from_db()
    assert experiment.state == ExperimentState.ACTIVE


def test_the_reaper_goes_on_where_a_crash_left_it(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project)
    (run,) = open_runs(experiment)
    end(run, node)
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now() - dt.timedelta(minutes=1))
    reap()
    assert experiment.runs.count() == 2


def test_the_budget_of_runs_ends_a_search_with_what_it_knows(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project, budget={"max_runs": 4})
    search_through(experiment, node, limit=5)
    assert experiment.state == ExperimentState.DONE and experiment.runs.count() == 4
    assert experiment.outcome.startswith("its budget of 4 runs is used up: 4 users at once hold; an upper bound")


def test_a_cancelled_search_adds_nothing_more(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project)
    (run,) = open_runs(experiment)
    cancel_experiment(experiment.owner, experiment)
    end(run, node)
    assert extend_experiment(experiment.pk) is False
    experiment.refresh_from_db()
    assert (experiment.state, experiment.runs.count()) == (ExperimentState.CANCELLED, 1)


def test_a_paused_search_plans_on_and_is_not_done(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project)
    (run,) = open_runs(experiment)
    pause_experiment(experiment.owner, experiment)
    end(run, node)
    assert settle_experiment(experiment.pk) is False
    experiment.refresh_from_db()
    assert (experiment.state, experiment.runs.count()) == (ExperimentState.PAUSED, 2)


def test_a_clone_searches_anew(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project)
    search_through(experiment, node, limit=5)
    clone = clone_experiment(experiment.owner, experiment).experiment
    assert [run.trial.settings for run in open_runs(clone)] == [{LOAD: 1}] and clone.outcome == ""


def test_repeats_are_added_to_every_trial_until_all_are_tight(project: Project) -> None:
    node = ready_node()
    experiment = submit(project, repeats=UNTIL, matrix={"engine.max_num_seqs": [8, 16]})
    assert experiment.runs.count() == 4
    values = {8: [100.0, 100.1, 100.2, 100.0], 16: [90.0, 110.0, 100.0, 99.0]}
    while runs := open_runs(experiment):
        end(runs[0], node, value=values[runs[0].trial.settings["engine.max_num_seqs"]][runs[0].repeat])
        settle_experiment(experiment.pk)
    experiment.refresh_from_db()
    assert experiment.runs.count() == 8 and experiment.state == ExperimentState.DONE
    assert experiment.outcome.startswith("4 repeats are the most; the interval of output_throughput is wider")
    assert [run.spec["seed"] for run in experiment.runs.filter(repeat=3)] == [requests_seed(0, 3)] * 2


def test_a_round_of_repeats_that_the_budget_can_not_finish_is_not_begun(project: Project) -> None:
    node = ready_node()
    experiment = submit(project, repeats=UNTIL, matrix={"engine.max_num_seqs": [8, 16]}, budget={"max_runs": 5})
    for run in open_runs(experiment):
        end(run, node, value=100.0 + 20 * run.repeat)
        settle_experiment(experiment.pk)
    experiment.refresh_from_db()
    assert experiment.runs.count() == 4 and "budget of 5 runs" in experiment.outcome


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"repeats": {"until": {"metric": "speed", "interval": 0.1, "max": 5}}}, "repeats.until.metric"),
        ({"repeats": {"until": {"metric": "goodput", "interval": 0.1, "max": 5}}}, "repeats.until.metric"),
        ({"search": {"optimize": "concurrency", "space": {"engine.block_size": [16, 32]}}}, "search.optimize"),
        (
            {"search": {"optimize": "ttft", "space": {"engine.weights": ["bf16", "none"]}}},
            "search.space.engine.weights",
        ),
        (
            {"search": {"pareto": {"metrics": ["ttft", "x"], "space": {"engine.block_size": [16]}}}},
            "search.pareto.metrics.1",
        ),
    ],
)
def test_figures_that_can_not_lead_a_search_are_refused(project: Project, changes: dict[str, Any], field: str) -> None:
    ready_node()
    with pytest.raises(SpecError) as caught:
        submit_search(project, **{"slo": {}, "search": None, **changes}) if "search" in changes else submit(
            project, **changes
        )
    assert [error.field for error in caught.value.errors] == [field]


@pytest.mark.django_db(transaction=True)
def test_two_followers_at_once_add_the_next_run_once(project: Project) -> None:
    node = ready_node()
    experiment = submit_search(project, matrix={"engine.max_num_seqs": [8, 16]})
    for run in open_runs(experiment):
        end(run, node)
    begin = threading.Barrier(4)
    failures: list[BaseException] = []

    def follow() -> None:
        try:
            begin.wait(timeout=30)
            settle_experiment(experiment.pk)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=follow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failures
    assert experiment.runs.count() == 4 and experiment.trials.count() == 4


def crash(*_: Any) -> None:
    raise ZeroDivisionError("no step to take")


def test_an_experiment_whose_next_runs_can_not_be_worked_out_ends_and_says_why(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ready_node()
    experiment = submit_search(project)
    end(open_runs(experiment)[0], node)
    monkeypatch.setattr("experiments.services.extending.plan_stored", crash)
    assert settle_experiment(experiment.pk) is True
    experiment.refresh_from_db()
    assert experiment.state == ExperimentState.DONE
    assert experiment.outcome == "its next runs could not be worked out: ZeroDivisionError: no step to take"


def test_where_they_can_not_be_worked_out_the_runs_under_way_are_waited_for(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ready_node()
    experiment = submit_search(project, matrix={"engine.max_num_seqs": [8, 16]})
    first, second = open_runs(experiment)
    end(first, node)
    monkeypatch.setattr("experiments.services.extending.plan_stored", crash)
    assert settle_experiment(experiment.pk) is False
    end(second, node)
    assert settle_experiment(experiment.pk) is True


def test_a_database_that_is_away_ends_no_search(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise OperationalError("the connection is closed")

    node = ready_node()
    experiment = submit_search(project)
    end(open_runs(experiment)[0], node)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("experiments.services.extending.plan_stored", away)
        with pytest.raises(OperationalError):
            settle_experiment(experiment.pk)
    assert settle_experiment(experiment.pk) is False
    assert len(open_runs(experiment)) == 1
