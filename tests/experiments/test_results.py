"""What is stored of a run's results, from the records of its final attempt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from control_plane import live_attempt, submit, team
from modelled_node import events_of, finish_run, modelled_node
from node_events import claimed, request, sample, send, turn_until

from experiments.models import Attempt, Experiment, RequestRecord, Run
from experiments.recorder import Recorder
from experiments.results import load_records, report_of, store_results
from experiments.services import cancel_experiment, claim, lose_attempt, place_runs
from runners import events
from runners.events import Report
from runners.metrics import summarize
from runners.spec import RunSpec

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def stored(run: Run) -> tuple[object, object, object]:
    run.refresh_from_db()
    return run.summary, run.valid, run.reasons


def modelled_run(redis_url: str) -> Run:
    modelled_node()
    workload = {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 4}, "num_requests": 40}
    made: Experiment = submit(team(), chip="h100-sxm", workload=workload)
    return finish_run(made.runs.get(), redis_url)


def test_the_results_are_those_of_the_events_that_were_sent(redis_url: str) -> None:
    modelled_node()
    made: Experiment = submit(team(), chip="h100-sxm")
    place_runs()
    attempt = live_attempt(made.runs.get())
    sent = events_of(attempt)
    with redis.Redis.from_url(redis_url) as broker:
        send(broker, attempt, *sent)
        turn_until(Recorder(broker), attempt, len(sent))
    run = Run.objects.get(id=attempt.run_id)
    report = sent[-1]
    assert isinstance(report, Report)
    expected = summarize(
        [event for event in sent if isinstance(event, events.RequestRecord)],
        [event for event in sent if isinstance(event, events.Step)],
        report,
        RunSpec.model_validate(run.spec),
    )
    assert run.summary is not None
    told = {name: value for name, value in run.summary.items() if name != "bottleneck"}
    assert told == expected.as_json()
    assert run.summary["bottleneck"]["requests"] == expected.metrics["requests_ok"].value
    assert run.valid == expected.valid


def test_a_modelled_run_of_many_requests_is_valid(redis_url: str) -> None:
    run = modelled_run(redis_url)
    assert (run.state, run.valid, run.reasons) == ("succeeded", True, [])
    assert run.summary is not None
    assert run.summary["modelled"] is True
    assert run.summary["metrics"]["output_tokens"]["value"] == 40 * 32


def test_computing_them_again_gives_the_same(redis_url: str) -> None:
    run = modelled_run(redis_url)
    before = stored(run)
    store_results(run)
    assert stored(run) == before


def test_they_rest_on_the_final_attempt_alone(broker: redis.Redis) -> None:
    first = claimed(retries=1)
    send(broker, first, *(request(index, output_tokens=50) for index in range(5)))
    turn_until(Recorder(broker), first, 5)
    lose_attempt(first.id, "silent")
    place_runs()
    second = live_attempt(first.run)
    claim(second.node, second.run_id, second.number)
    report = Report(outcome="succeeded", window_start_s=0.0, window_end_s=4.0, events=2)
    send(broker, second, request(0, output_tokens=7), report)
    turn_until(Recorder(broker), second, 2)
    run = Run.objects.get(id=first.run_id)
    assert run.summary is not None
    assert run.summary["metrics"]["output_tokens"]["value"] == 7
    assert "retried" in run.reasons


def test_records_are_loaded_in_the_order_of_their_numbers(broker: redis.Redis) -> None:
    attempt = claimed()
    send(broker, attempt, request(2), sample(0.25), request(0), request(1))
    turn_until(Recorder(broker), attempt, 4)
    assert [one.index for one in load_records(RequestRecord, events.RequestRecord, attempt)] == [2, 0, 1]


def test_a_run_that_was_never_tried_has_none(broker: redis.Redis) -> None:
    made = claimed(repeats=2).run.experiment
    waiting = made.runs.get(state="queued")
    cancel_experiment(made.owner, made)
    store_results(waiting)
    assert stored(waiting)[:2] == (None, None)


@pytest.mark.parametrize(("state", "outcome"), [("cancelled", "cancelled"), ("failed", "failed"), ("lost", "failed")])
def test_without_a_report_the_control_planes_word_stands(state: str, outcome: str) -> None:
    report = report_of(Attempt(state=state, reason="the lease ran out", stored_seq=12))
    assert (report.outcome, report.error, report.events) == (outcome, "the lease ran out", 12)
