"""GET /api/v1/compare."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from api_client import Caller, assert_people_only, member, refused
from control_plane import live_attempt, submit
from modelled_node import events_of, modelled_node, record, send

from experiments.comparison import MAX_TRIALS
from experiments.models import Experiment, Run
from experiments.services import place_runs
from labsite.accounts.models import Project, Role

MANY = ",".join(str(n) for n in range(1, MAX_TRIALS + 2))

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


@pytest.fixture
def experiment(redis_url: str, project: Project) -> Iterator[Experiment]:
    """Two settings, twice each, run by a modelled node."""
    modelled_node()
    workload = {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 4}, "num_requests": 24}
    made = submit(project, chip="h100-sxm", matrix={"engine.max_num_seqs": [1, 4]}, repeats=2, workload=workload)
    with redis.Redis.from_url(redis_url) as broker:
        for _ in range(4):
            place_runs()
            attempt = live_attempt(Run.objects.get(experiment=made, state="assigned"))
            events = events_of(attempt)
            send(broker, attempt, events)
            record(broker, attempt, len(events))
        yield made


def test_only_people_with_a_token_may() -> None:
    assert_people_only("GET", "/compare?experiment=1")


def test_an_experiments_trials_are_compared(caller: Caller, experiment: Experiment) -> None:
    found = caller.get(f"/compare?experiment={experiment.id}").json()
    one, four = found["trials"]
    assert (one["settings"], one["baseline"], one["modelled"]) == ({"engine.max_num_seqs": 1}, True, True)
    assert [run["id"] for run in four["runs"]] == list(
        Run.objects.filter(trial__index=1, experiment=experiment).order_by("repeat").values_list("id", flat=True)
    )
    assert all(run["output_tokens"] == 24 * 32 for trial in (one, four) for run in trial["runs"])
    throughput = found["metrics"]["output_throughput"]
    assert (throughput["unit"], throughput["more_is_better"]) == ("tok/s", True)
    for row in found["differences"]:
        assert (row["baseline"], row["settings"]) == ({"engine.max_num_seqs": 1}, {"engine.max_num_seqs": 4})


def test_only_the_metrics_asked_for_are_compared(caller: Caller, experiment: Experiment) -> None:
    every = caller.get(f"/compare?experiment={experiment.id}").json()
    found = caller.get(f"/compare?experiment={experiment.id}&metrics=ttft,output_throughput").json()
    assert list(found["metrics"]) == ["output_throughput", "ttft"]
    assert all(trial["metrics"].keys() == {"output_throughput", "ttft"} for trial in found["trials"])
    assert found["differences"] == [row for row in every["differences"] if row["metric"] in found["metrics"]]
    wrong = refused(caller.get(f"/compare?experiment={experiment.id}&metrics=ttft,speed"), 400)
    assert "speed can't be compared; allowed: output_throughput" in wrong["detail"]


def test_chosen_trials_are_compared_in_the_order_asked_for(caller: Caller, experiment: Experiment) -> None:
    first, second = experiment.trials.values_list("id", flat=True)
    found = caller.get(f"/compare?trials={second},{first}").json()
    assert [trial["id"] for trial in found["trials"]] == [second, first]
    assert found["trials"][0]["baseline"] is True


def test_what_is_not_ones_own_is_not_there(experiment: Experiment, caller: Caller) -> None:
    trial = experiment.trials.values_list("id", flat=True)[0]
    stranger = member()
    refused(stranger.get(f"/compare?experiment={experiment.id}"), 404)
    refused(stranger.get(f"/compare?trials={trial}"), 404)
    refused(caller.get("/compare?trials=999999999"), 404)
    refused(caller.get("/compare?experiment=999999999"), 404)


@pytest.mark.parametrize("query", ["", "experiment=1&trials=2", f"trials={MANY}"])
def test_an_unclear_question_is_refused(caller: Caller, query: str) -> None:
    refused(caller.get(f"/compare?{query}"), 400)


@pytest.mark.parametrize("query", ["experiment=x", "trials=a,b", "trials=", "trials=1;2", "experiment=0"])
def test_a_bad_id_is_refused(caller: Caller, query: str) -> None:
    assert refused(caller.get(f"/compare?{query}"), 422)["errors"][0]["field"] == query.split("=")[0]
