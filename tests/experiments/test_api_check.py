"""GET /api/v1/experiments/{id}/check, on planted changes and on equal settings in Postgres."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import ready_node, submit
from ended_runs import ended, measured

from experiments.models import Experiment, Run
from hardware.models import Node
from labsite.accounts.models import Project, Role

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


@pytest.fixture
def node() -> Node:
    return ready_node("bench")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def checked(caller: Caller, experiment: Experiment, query: str = "") -> Any:
    return caller.get(f"/experiments/{experiment.pk}/check?{query}").json()


def test_only_people_with_a_token_may() -> None:
    assert_people_only("GET", "/experiments/1/check")


@pytest.mark.parametrize(
    ("change", "outcome"), [(-0.10, "regressed"), (-0.03, "regressed"), (0.0, "unchanged"), (0.10, "improved")]
)
def test_a_planted_change_against_an_earlier_experiment(
    caller: Caller, project: Project, node: Node, rng: np.random.Generator, change: float, outcome: str
) -> None:
    before = ended(project, node, [measured(rng, 100, 8)])
    after = ended(project, node, [measured(rng, 100 * (1 + change), 8)], day=1)
    found = checked(caller, after, f"baseline={before.pk}&effect=0.03")
    (finding,) = found["findings"]
    assert (found["outcome"], finding["outcome"]) == (outcome, outcome)
    assert finding["low"] < finding["difference"] < finding["high"]
    assert (finding["n_before"], finding["n_after"], finding["nodes"]) == (8, 8, ["bench"])
    assert finding["relative"] == pytest.approx(change, abs=0.015)
    assert 0 < finding["noise_floor"] < 0.03 and finding["power"] > 0.8 and finding["effect_size"] is not None
    assert finding["baseline_runs"] == list(before.runs.order_by("repeat").values_list("pk", flat=True))


def test_equal_settings_are_called_changed_in_at_most_5_percent(
    caller: Caller, project: Project, node: Node, rng: np.random.Generator
) -> None:
    before, after = (
        ended(project, node, [measured(rng, 100, 4) for _ in range(40)], day=day, budget={"max_runs": 160})
        for day in range(2)
    )
    for query in (f"baseline={before.pk}", "baseline=last:4"):
        outcomes = [finding["outcome"] for finding in checked(caller, after, query)["findings"]]
        assert len(outcomes) == 40
        assert outcomes.count("regressed") + outcomes.count("improved") <= 2
        assert outcomes.count("unchanged") >= 36


def test_no_experiment_is_its_own_baseline(caller: Caller, project: Project, node: Node) -> None:
    made = ended(project, node, [[1.0, 2.0]])
    (fault,) = refused(caller.get(f"/experiments/{made.pk}/check?baseline={made.pk}"), 422)["errors"]
    assert fault["field"] == "baseline"


def test_the_last_runs_are_those_of_the_same_settings_on_the_same_node(
    caller: Caller, project: Project, node: Node, rng: np.random.Generator
) -> None:
    earlier = [ended(project, node, [measured(rng, 100, 3)], day=day) for day in range(3)]
    ended(project, ready_node("other"), [measured(rng, 10, 3)], day=4)
    ended(project, node, [measured(rng, 10, 3)], day=5, engine={"max_num_seqs": 7})
    later = ended(project, node, [measured(rng, 10, 3)], day=9)
    Run.objects.filter(experiment=earlier[2], repeat=0).update(valid=False)
    after = ended(project, node, [measured(rng, 90, 4)], day=8)
    found = checked(caller, after, "baseline=last:4")
    (finding,) = found["findings"]
    of_middle = list(earlier[1].runs.order_by("position").values_list("pk", flat=True))
    of_last = list(earlier[2].runs.filter(valid=True).values_list("pk", flat=True))
    assert set(finding["baseline_runs"]) == {*of_middle[-2:], *of_last}
    assert (found["outcome"], finding["n_before"], finding["method"]) == ("regressed", 4, "Welch t")
    assert (
        checked(caller, later, "baseline=last:2")["findings"][0]["baseline_runs"]
        == [run.pk for run in after.runs.order_by("position")][-2:]
    )


def test_without_a_baseline_the_experiments_own_is_taken(
    caller: Caller, project: Project, node: Node, rng: np.random.Generator
) -> None:
    values = measured(rng, 100, 5, spread=0.05)
    made = ended(project, node, [values, [0.9 * value for value in values], values[::-1]])
    found = checked(caller, made)
    assert [finding["method"] for finding in found["findings"]] == ["paired t"] * 2
    first, second = found["findings"]
    assert first["settings"] == {"engine.max_num_seqs": 2}
    assert second["outcome"] in ("unchanged", "inconclusive")
    assert found["baseline"] == "its own baseline"


def test_what_can_not_be_judged_says_why(
    caller: Caller, project: Project, node: Node, rng: np.random.Generator
) -> None:
    before = ended(project, node, [measured(rng, 100, 2)])
    elsewhere = ended(project, ready_node("other"), [measured(rng, 100, 2)], day=1)
    found = checked(caller, elsewhere, f"baseline={before.pk}&metrics=output_throughput,ttft")
    assert found["outcome"] == "inconclusive"
    assert {finding["why"] for finding in found["findings"]} == {"it ran on other, the baseline on bench"}
    alone = checked(caller, before, "baseline=last:5")
    assert alone["findings"][0]["why"] == "the baseline has no valid run of these settings"
    assert checked(caller, before)["outcome"] == "inconclusive"


def test_an_experiment_whose_runs_have_not_ended_is_refused(caller: Caller, project: Project, node: Node) -> None:
    waiting = submit(project)
    assert "without results (1)" in refused(caller.get(f"/experiments/{waiting.pk}/check"), 409)["detail"]


def test_what_is_not_ones_own_is_not_there(caller: Caller, project: Project, node: Node) -> None:
    made = ended(project, node, [[1.0, 2.0]])
    refused(member().get(f"/experiments/{made.pk}/check"), 404)
    refused(caller.get(f"/experiments/{made.pk}/check?baseline=999999999"), 404)


@pytest.mark.parametrize("query", ["metrics=nonsense", "metrics=concurrency", "baseline=last:1", "baseline=last:101"])
def test_what_can_not_be_asked_is_refused_with_what_can(
    caller: Caller, project: Project, node: Node, query: str
) -> None:
    made = ended(project, node, [[1.0, 2.0]])
    (fault,) = refused(caller.get(f"/experiments/{made.pk}/check?{query}"), 422)["errors"]
    assert fault["field"] == query.split("=")[0]
    assert fault["allowed"]


@pytest.mark.parametrize("query", ["baseline=0", "baseline=last:", "effect=0", "effect=x", "metrics=", "metrics=A;B"])
def test_a_bad_parameter_is_refused(caller: Caller, query: str) -> None:
    assert refused(caller.get(f"/experiments/1/check?{query}"), 422)["errors"][0]["field"] == query.split("=")[0]
