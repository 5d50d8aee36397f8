"""The recorder on real streams and real tables: each event once, in order, whatever stops in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
import redis
from control_plane import live_attempt
from django.db import connection, connections
from node_events import claimed, request, sample, send, turn_until, until, whole_attempt

from experiments.models import Attempt, LogLine, RequestRecord, Run, Sample, StatusRecord, StepRecord
from experiments.recorder import Recorder, record_until
from experiments.recorder import follow as following
from experiments.recorder.store import Cursor, store_events
from experiments.recorder.trim import sweep_ended_streams
from experiments.services import claim, confirm_ended, lose_attempt, place_runs
from experiments.services.cancelling import stop_experiment
from hardware.broker import stream_key
from runners import events
from runners.events import Report

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def attempt(broker: redis.Redis) -> Attempt:
    return claimed()


def stored_samples(attempt: Attempt) -> list[tuple[int, float]]:
    rows = Sample.objects.filter(run_id=attempt.run_id, attempt=attempt.number).order_by("seq")
    return list(rows.values_list("seq", "t_s"))


def test_every_kind_of_event_reaches_its_table(broker: redis.Redis, attempt: Attempt) -> None:
    send(broker, attempt, *whole_attempt())
    turn_until(Recorder(broker), attempt, 7)
    of_run = {"run_id": attempt.run_id, "attempt": 1}
    request_row = RequestRecord.objects.get(**of_run)
    assert (request_row.seq, request_row.phase, request_row.status, request_row.sent_s) == (4, "measured", "ok", 1.0)
    assert request_row.data["request_id"] == "r0"
    assert Sample.objects.get(**of_run).seq == 2
    assert StepRecord.objects.get(**of_run).start_s == 1.0
    assert LogLine.objects.get(**of_run).data["message"] == "hello"
    assert list(StatusRecord.objects.filter(**of_run).values_list("seq", "kind").order_by("seq")) == [
        (1, "status"),
        (6, "status"),
        (7, "report"),
    ]


def test_the_report_ends_the_attempt_with_its_results(broker: redis.Redis, attempt: Attempt) -> None:
    send(broker, attempt, *whole_attempt())
    turn_until(Recorder(broker), attempt, 7)
    run = Run.objects.get(id=attempt.run_id)
    assert (attempt.state, attempt.phase, attempt.events, run.state) == ("succeeded", "done", 7, "succeeded")
    assert attempt.report is not None and attempt.report["outcome"] == "succeeded"
    assert run.summary is not None
    assert run.summary["metrics"]["requests_ok"]["value"] == 1


def test_a_report_stored_but_not_acted_on_is_acted_on_by_the_next_recorder(
    broker: redis.Redis, attempt: Attempt
) -> None:
    batch = [following.next_batch([(b"1-1", {b"e": Report(outcome="succeeded").model_dump_json().encode()})], 1, 0)]
    assert store_events(cursor_of(attempt), batch[0].events)
    Recorder(broker).turn(block_ms=10)
    attempt.refresh_from_db()
    assert attempt.state == "succeeded"


def cursor_of(attempt: Attempt) -> Cursor:
    attempt.refresh_from_db()
    return Cursor(attempt.id, attempt.run_id, attempt.number, attempt.node.slug, attempt.stored_seq)


def test_events_are_stored_as_they_come(broker: redis.Redis, attempt: Attempt) -> None:
    recorder = Recorder(broker)
    for seq in range(1, 6):
        send(broker, attempt, sample(seq / 4), first=seq)
        turn_until(recorder, attempt, seq)
    assert stored_samples(attempt) == [(seq, seq / 4) for seq in range(1, 6)]


def test_several_recorders_at_once_store_each_event_once(broker: redis.Redis, attempt: Attempt) -> None:
    count = 400

    def record() -> None:
        try:
            recorder = Recorder(broker)
            until(lambda: recorder.turn(block_ms=20) < 0 or Attempt.objects.get(id=attempt.id).stored_seq == count)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        recorders = [pool.submit(record) for _ in range(4)]
        for seq in range(1, count + 1):
            send(broker, attempt, sample(float(seq)), first=seq)
        for one in recorders:
            one.result()
    assert stored_samples(attempt) == [(seq, float(seq)) for seq in range(1, count + 1)]


def test_a_batch_that_another_recorder_has_stored_changes_nothing(broker: redis.Redis, attempt: Attempt) -> None:
    cursor = cursor_of(attempt)
    batch = following.next_batch([(b"1-1", {b"e": sample(1.0).model_dump_json().encode()})], 1, 0)
    assert store_events(cursor, batch.events)
    assert not store_events(cursor, batch.events)
    assert stored_samples(attempt) == [(1, 1.0)]


def test_the_attempt_shows_how_far_a_fetch_is_and_keeps_when_it_ended(broker: redis.Redis, attempt: Attempt) -> None:
    recorder = Recorder(broker)

    def say(seq: int, phase: Any, detail: str) -> tuple[str, str, datetime | None]:
        send(broker, attempt, events.Status(phase=phase, wall_s=1.0, detail=detail), first=seq)
        turn_until(recorder, attempt, seq)
        return attempt.phase, attempt.phase_detail, attempt.fetched_at

    assert say(1, "starting", "model") == ("starting", "model", None)
    phase, detail, first = say(2, "fetching", "fetching tiny: 40 %" + "x" * 300)
    assert (phase, detail[:19], len(detail)) == ("fetching", "fetching tiny: 40 %", 200)
    *_, ended = say(3, "starting", "server")
    assert first is not None and ended is not None and ended > first
    assert say(4, "measuring", "")[2] == ended


def test_the_recorder_waits_at_a_hole_and_goes_on_when_the_node_sends_again(
    broker: redis.Redis, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "HOLE_RETRY_S", 0.05)
    monkeypatch.setattr(following, "HOLE_GIVEN_UP_S", 0.2)
    recorder = Recorder(broker)
    send(broker, attempt, sample(1.0), sample(2.0))
    send(broker, attempt, sample(5.0), sample(6.0), first=5)
    turn_until(recorder, attempt, 2)
    key = stream_key(attempt.node.slug, attempt.run_id)

    def tail_is_gone() -> bool:
        recorder.turn(block_ms=20)
        return not broker.exists(key)

    until(tail_is_gone)
    assert stored_samples(attempt) == [(1, 1.0), (2, 2.0)]
    send(broker, attempt, *(sample(float(seq)) for seq in range(3, 7)), first=3)
    turn_until(recorder, attempt, 6)
    assert stored_samples(attempt) == [(seq, float(seq)) for seq in range(1, 7)]


def test_a_stream_that_was_lost_goes_on_where_the_node_is(broker: redis.Redis, attempt: Attempt) -> None:
    recorder = Recorder(broker)
    send(broker, attempt, sample(1.0), sample(2.0))
    turn_until(recorder, attempt, 2)
    broker.flushall()
    send(broker, attempt, sample(3.0), first=3)
    turn_until(recorder, attempt, 3)
    assert stored_samples(attempt) == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_what_a_lost_attempt_still_says_is_not_stored(broker: redis.Redis) -> None:
    first = claimed(retries=1)
    recorder = Recorder(broker)
    send(broker, first, sample(1.0))
    turn_until(recorder, first, 1)
    cursor = cursor_of(first)
    lose_attempt(first.id, "silent")
    place_runs()
    second = live_attempt(first.run)
    claim(second.node, second.run_id, second.number)
    send(broker, first, sample(2.0), Report(outcome="succeeded", events=3), first=2)
    batch = following.next_batch([(b"1-2", {b"e": sample(2.0).model_dump_json().encode()})], 1, 1)
    assert not store_events(cursor, batch.events)
    send(broker, second, *whole_attempt())
    turn_until(recorder, second, 7)
    run = Run.objects.get(id=first.run_id)
    assert (run.state, run.final_attempt_id) == ("succeeded", second.id)
    assert stored_samples(first) == [(1, 1.0)]
    assert "retried" in run.reasons
    assert run.summary is not None and run.summary["metrics"]["output_tokens"]["n"] <= 1


def test_a_stopped_attempt_is_followed_to_its_late_report(broker: redis.Redis, attempt: Attempt) -> None:
    stop_experiment(attempt.run.experiment_id, "enough")
    assert confirm_ended(attempt.id)
    send(broker, attempt, sample(1.0), Report(outcome="cancelled", events=2))
    turn_until(Recorder(broker), attempt, 2)
    run = Run.objects.get(id=attempt.run_id)
    assert (attempt.state, run.state, run.valid) == ("cancelled", "cancelled", False)
    assert "cancelled" in run.reasons


@pytest.mark.parametrize(
    "text",
    [
        b"not json",
        b'{"kind":"sample","t_s":"soon"}',
        b"",
        b"\xff\xfe",
        # fits the event's type, but no column of PostgreSQL's
        request(0).model_dump_json().replace('"index":0', '"index":99999999999').encode(),
    ],
)
def test_a_bad_event_is_kept_as_evidence_and_blocks_nothing(broker: redis.Redis, attempt: Attempt, text: bytes) -> None:
    send(broker, attempt, sample(1.0), text, sample(3.0))
    turn_until(Recorder(broker), attempt, 3)
    assert attempt.unreadable_events == 1
    assert [seq for seq, _ in stored_samples(attempt)] == [1, 3]
    line = LogLine.objects.get(run_id=attempt.run_id)
    assert (line.seq, line.level, line.data["source"]) == (2, "error", "recorder")


def test_a_run_with_unreadable_events_is_invalid(broker: redis.Redis, attempt: Attempt) -> None:
    send(broker, attempt, b"?", Report(outcome="succeeded", events=2))
    turn_until(Recorder(broker), attempt, 2)
    run = Run.objects.get(id=attempt.run_id)
    assert run.valid is False
    assert "unreadable_events" in run.reasons


def test_text_that_postgresql_refuses_is_cleaned(broker: redis.Redis, attempt: Attempt) -> None:
    line = events.Log(wall_s=1.0, level="info", source="node", message="a\x00b")
    odd = Report(outcome="succeeded", facts={"load": float("nan"), "name": "c\x00d"}, events=2)
    send(broker, attempt, line, json.dumps(odd.model_dump()).encode())
    turn_until(Recorder(broker), attempt, 2)
    assert LogLine.objects.get(run_id=attempt.run_id).data["message"] == "a\ufffdb"
    assert attempt.report is not None
    assert attempt.report["facts"] == {"load": None, "name": "c\ufffdd"}


def test_one_attempts_trouble_stops_no_other(
    broker: redis.Redis, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = claimed()

    def failing(cursor: Cursor, batch: object) -> bool:
        if cursor.attempt_id == attempt.id:
            raise RuntimeError("this one fails")
        return store_events(cursor, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(following, "store_events", failing)
    send(broker, attempt, sample(1.0))
    send(broker, other, sample(1.0))
    turn_until(Recorder(broker), other, 1)
    attempt.refresh_from_db()
    assert attempt.stored_seq == 0


def test_a_key_that_is_no_stream_is_removed_and_stops_no_other(broker: redis.Redis, attempt: Attempt) -> None:
    other, key = claimed(), stream_key(attempt.node.slug, attempt.run_id)
    broker.set(key, "put there by its node")
    send(broker, other, sample(1.0))
    recorder = Recorder(broker)
    turn_until(recorder, other, 1)
    assert not broker.exists(key)
    send(broker, attempt, sample(1.0))
    turn_until(recorder, attempt, 1)


def test_trimming_leaves_a_key_that_is_no_stream_to_the_reader(
    broker: redis.Redis, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, other = Recorder(broker), claimed()
    for one in (attempt, other):
        send(broker, one, sample(1.0), sample(2.0))
        turn_until(recorder, one, 2)
    monkeypatch.setattr("experiments.recorder.trim.KEPT_S", 0.0)
    recorder.trim_now()
    broker.unlink(stream_key(attempt.node.slug, attempt.run_id))
    broker.set(stream_key(attempt.node.slug, attempt.run_id), "put there by its node")
    recorder.trim_now()
    assert broker.xlen(stream_key(other.node.slug, other.run_id)) == 1


@pytest.mark.parametrize("run", ["9" * 5000, "9" * 19, "1e3", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_stream_that_can_belong_to_no_run_is_swept(broker: redis.Redis, attempt: Attempt, run: str) -> None:
    key = f"node:{attempt.node.slug}:run:{run}"
    broker.xadd(key, {"e": "{}"})
    sweep_ended_streams(broker)
    assert not broker.exists(key)


def test_the_loop_outlives_lost_connections_to_both_servers(broker: redis.Redis, attempt: Attempt) -> None:
    stop = threading.Event()

    def record() -> None:
        record_until(stop)

    with ThreadPoolExecutor(1) as pool:
        loop = pool.submit(record)
        try:
            send(broker, attempt, sample(1.0))
            until(lambda: stored_samples(attempt) == [(1, 1.0)])
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            broker.client_kill_filter(_type="normal", skipme=True)
            send(broker, attempt, sample(2.0), first=2)
            until(lambda: stored_samples(attempt) == [(1, 1.0), (2, 2.0)])
        finally:
            stop.set()
        loop.result(timeout=10)


def test_a_stored_stream_is_trimmed_but_for_the_last_minute(
    broker: redis.Redis, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(broker)
    send(broker, attempt, *(sample(float(seq)) for seq in range(1, 11)))
    turn_until(recorder, attempt, 10)
    key = stream_key(attempt.node.slug, attempt.run_id)
    recorder.trim_now()
    assert broker.xlen(key) == 10
    monkeypatch.setattr("experiments.recorder.trim.KEPT_S", 0.0)
    send(broker, attempt, sample(11.0), first=11)
    recorder.trim_now()
    recorder.trim_now()
    assert [entry for entry, _ in broker.xrange(key)] == [b"1-10", b"1-11"]


def test_the_stream_of_an_ended_run_is_removed_after_a_minute(broker: redis.Redis, attempt: Attempt) -> None:
    other = claimed()
    send(broker, other, sample(1.0))
    send(broker, attempt, *whole_attempt())
    turn_until(Recorder(broker), attempt, 7)
    assert sweep_ended_streams(broker) == 0
    assert sweep_ended_streams(broker, kept_s=0.0) == 1
    assert not broker.exists(stream_key(attempt.node.slug, attempt.run_id))
    assert broker.exists(stream_key(other.node.slug, other.run_id))
