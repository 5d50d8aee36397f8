"""GET /api/v1/runs/{id} and its requests, series, steps and log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from api_client import Caller, assert_people_only, member, refused
from control_plane import live_attempt
from node_events import claimed, sample, send, step, turn_until, whole_attempt

from experiments.models import Attempt
from experiments.recorder import Recorder
from experiments.services import claim, lose_attempt, place_runs
from labsite.accounts.models import Project, Role

# COPY and the broker want a committed world.
pytestmark = pytest.mark.django_db(transaction=True)

RECORDS = ["requests", "series", "steps", "log"]


@pytest.fixture
def broker(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


@pytest.fixture
def attempt(broker: redis.Redis, project: Project) -> Attempt:
    return claimed(project, matrix={"engine.weights": ["int8"]})


def test_only_people_with_a_token_may(attempt: Attempt) -> None:
    assert_people_only("GET", f"/runs/{attempt.run_id}")
    for records in RECORDS:
        assert_people_only("GET", f"/runs/{attempt.run_id}/{records}")


def test_a_run_of_another_project_is_not_there(attempt: Attempt) -> None:
    stranger = member()
    for path in ("", *(f"/{records}" for records in RECORDS)):
        refused(stranger.get(f"/runs/{attempt.run_id}{path}"), 404)


@pytest.mark.parametrize("bad", ["0", "999999999", "99999999999999999999999", "abc"])
@pytest.mark.parametrize("path", ["", "/series"])
def test_a_bad_id_is_not_there(caller: Caller, bad: str, path: str) -> None:
    refused(caller.get(f"/runs/{bad}{path}"), 404)


def test_a_running_run_has_its_latest_sample(caller: Caller, broker: redis.Redis, attempt: Attempt) -> None:
    send(broker, attempt, sample(0.25), sample(0.5))
    turn_until(Recorder(broker), attempt, 2)
    found = caller.get(f"/runs/{attempt.run_id}").json()
    assert (found["state"], found["valid"], found["summary"]) == ("running", None, None)
    assert found["live"]["t_s"] == 0.5
    assert found["trial"]["settings"] == {"engine.weights": "int8"}
    assert found["experiment"]["name"] == "an experiment"
    assert found["spec"]["engine"]["weights"] == "int8"
    (only,) = found["attempts"]
    assert (only["number"], only["state"], only["stored_events"], only["events"]) == (1, "running", 2, None)


def test_an_ended_run_has_its_results(caller: Caller, broker: redis.Redis, attempt: Attempt) -> None:
    send(broker, attempt, *whole_attempt())
    turn_until(Recorder(broker), attempt, 7)
    found = caller.get(f"/runs/{attempt.run_id}").json()
    assert (found["state"], found["valid"], found["phase"]) == ("succeeded", False, "done")
    assert "too_few_requests" in found["reasons"]
    assert found["summary"]["metrics"]["requests_ok"]["value"] == 1
    assert {reason["code"] for reason in found["summary"]["reasons"]} == set(found["reasons"])
    assert found["attempts"][0]["report"]["outcome"] == "succeeded"


def test_each_kind_of_record_is_read_with_its_numbers(caller: Caller, broker: redis.Redis, attempt: Attempt) -> None:
    send(broker, attempt, *whole_attempt())
    turn_until(Recorder(broker), attempt, 7)
    pages = {records: caller.get(f"/runs/{attempt.run_id}/{records}").json() for records in RECORDS}
    assert {records: [item["seq"] for item in page["items"]] for records, page in pages.items()} == {
        "requests": [4], "series": [2], "steps": [3], "log": [5],
    }  # fmt: skip
    assert pages["log"]["items"][0]["message"] == "hello"
    assert all((page["attempt"], page["next"]) == (1, None) for page in pages.values())


def test_records_are_read_page_by_page(caller: Caller, broker: redis.Redis, attempt: Attempt) -> None:
    send(broker, attempt, *(step(index) for index in range(7)))
    turn_until(Recorder(broker), attempt, 7)
    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        page = caller.get(f"/runs/{attempt.run_id}/steps?after={after}&limit=3").json()
        seen += [item["index"] for item in page["items"]]
        after = page["next"]
    assert seen == list(range(7))


def test_the_records_shown_are_those_of_the_current_attempt(
    caller: Caller, broker: redis.Redis, project: Project
) -> None:
    first = claimed(project, retries=1)
    send(broker, first, sample(1.0), sample(2.0))
    turn_until(Recorder(broker), first, 2)
    lose_attempt(first.id, "silent")
    place_runs()
    second = live_attempt(first.run)
    claim(second.node, second.run_id, second.number)
    send(broker, second, sample(9.0))
    turn_until(Recorder(broker), second, 1)
    shown = caller.get(f"/runs/{first.run_id}/series").json()
    assert (shown["attempt"], [item["t_s"] for item in shown["items"]]) == (2, [9.0])
    earlier = caller.get(f"/runs/{first.run_id}/series?attempt=1").json()
    assert [item["t_s"] for item in earlier["items"]] == [1.0, 2.0]


def test_a_run_that_waits_has_no_records_yet(caller: Caller, broker: redis.Redis, project: Project) -> None:
    waiting = claimed(project, repeats=2).run.experiment.runs.get(state="queued")
    assert caller.get(f"/runs/{waiting.id}/series").json() == {"attempt": None, "items": [], "next": None}
    found = caller.get(f"/runs/{waiting.id}").json()
    assert (found["attempts"], found["live"], found["node"]) == ([], None, None)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=5001", "attempt=0", f"after={2**63}"])
def test_a_bad_page_is_refused(caller: Caller, attempt: Attempt, query: str) -> None:
    fault = refused(caller.get(f"/runs/{attempt.run_id}/steps?{query}"), 422)["errors"][0]
    assert fault["field"] == query.split("=")[0]
