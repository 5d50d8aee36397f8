"""A search on a modelled node from submission to its end: every part is the real one, but for the agent."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import document, person, team
from modelled_node import MODELLED, finish_run, modelled_node

from experiments.models import ExperimentState, Run, RunState
from experiments.search.stored import searches_of
from experiments.services import reap, submit_experiment

LOAD = "workload.arrival.max_concurrency"
MOST_RUNS = 30


@pytest.mark.django_db(transaction=True)
def test_a_search_plans_places_runs_and_ends_by_itself(redis_url: str) -> None:
    modelled_node()
    project = team()
    workload: dict[str, Any] = {**MODELLED["workload"], "num_requests": 48, "arrival": {"kind": "closed"}}
    search = {"maximize": LOAD, "under": "slo", "low": 1, "high": 16, "confirm": 2}
    said = document(
        **{**MODELLED, "workload": workload, "matrix": {}, "search": search, "slo": {"tpot_s": {"p95": 1.0}}}
    )
    del said["repeats"]
    experiment = submit_experiment(person(project), project, said)
    ended = 0
    while experiment.state == ExperimentState.ACTIVE and ended < MOST_RUNS:
        unended = Run.objects.filter(experiment=experiment, state__in=[RunState.QUEUED, RunState.ASSIGNED])
        run = unended.order_by("position").first()
        if run is None:
            reap()
        else:
            assert finish_run(run, redis_url).state == RunState.SUCCEEDED
            ended += 1
        experiment.refresh_from_db()
    assert experiment.state == ExperimentState.DONE
    assert experiment.outcome.startswith("at least 16 users at once hold (the highest that was to be tried)")
    found = searches_of(experiment)
    assert found is not None
    (course,) = found.as_json()["courses"]
    assert [level["load"] for level in course["levels"]] == [1, 2, 4, 8, 16]
    assert course["confirmed"] == {"passed": 2, "of": 2} and experiment.runs.count() == 6
