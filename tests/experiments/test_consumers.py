"""The sockets over a real web process: who may open one, and that a client gets every event once, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from control_plane import live_attempt, person, team
from django.conf import settings
from django.test import Client
from node_events import claimed, sample, send, turn_until, until, whole_attempt
from web_process import WebProcess, close_code, messages_until, next_message, web_process

from experiments.models import Attempt
from experiments.recorder import Recorder, record_until
from experiments.services import cancel_experiment, claim, confirm_ended, lose_attempt, place_runs
from labsite.accounts.models import Project, User
from labsite.accounts.tokens import create_token, revoke_token
from labsite.database_url import database_url
from labsite.services import Services
from runners.events import Report

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def web(django_db_setup: None, services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    env = {**services.urls, "DATABASE_URL": database_url(settings.DATABASES["default"])}
    with web_process(env, tmp_path_factory.mktemp("web") / "web.log") as running:
        yield running


@pytest.fixture
def broker(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def member(project: Project) -> User:
    return person(project)


@pytest.fixture
def token(member: User) -> str:
    return create_token(member, "test").plain


@pytest.fixture
def attempt(broker: redis.Redis, project: Project) -> Attempt:
    return claimed(project)


@contextmanager
def recording() -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=record_until, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=20)
        assert not thread.is_alive()


def session_headers(user: User, origin: str | None) -> dict[str, str]:
    client = Client()
    client.force_login(user)
    cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"}
    return cookie if origin is None else {**cookie, "Origin": origin}


def ids_in(messages: list[dict[str, Any]]) -> list[str]:
    return [event_id for message in messages if message["type"] == "events" for event_id, _ in message["events"]]


def is_end(message: dict[str, Any]) -> bool:
    return bool(message["type"] == "end")


def reaches(event_id: str) -> Any:
    return lambda message: event_id in ids_in([message])


# Who may


@pytest.mark.parametrize("path", ["/ws/runs/{run}", "/ws/experiments/{experiment}"])
class TestAccess:
    def path_of(self, path: str, attempt: Attempt) -> str:
        return path.format(run=attempt.run_id, experiment=attempt.run.experiment_id)

    def test_a_wrong_token_is_closed_with_4401(self, web: WebProcess, path: str, attempt: Attempt) -> None:
        with web.socket(self.path_of(path, attempt), token="lab_wrong") as socket:
            assert close_code(socket) == 4401

    def test_a_revoked_token_is_closed_with_4401(
        self, web: WebProcess, path: str, attempt: Attempt, member: User
    ) -> None:
        made = create_token(member, "gone")
        revoke_token(made.record)
        with web.socket(self.path_of(path, attempt), token=made.plain) as socket:
            assert close_code(socket) == 4401

    def test_nobody_on_our_own_page_is_closed_with_4401(self, web: WebProcess, path: str, attempt: Attempt) -> None:
        with web.socket(self.path_of(path, attempt), headers={"Origin": f"http://{web.host}"}) as socket:
            assert close_code(socket) == 4401

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://["])
    def test_a_session_from_another_sites_page_is_closed_with_4403(
        self, web: WebProcess, path: str, attempt: Attempt, member: User, origin: str
    ) -> None:
        headers = session_headers(member, origin)
        with web.socket(self.path_of(path, attempt), headers=headers) as socket:
            assert close_code(socket) == 4403

    def test_a_session_without_an_origin_is_closed_with_4403(
        self, web: WebProcess, path: str, attempt: Attempt, member: User
    ) -> None:
        with web.socket(self.path_of(path, attempt), headers=session_headers(member, None)) as socket:
            assert close_code(socket) == 4403

    def test_a_session_on_our_own_page_is_served(
        self, web: WebProcess, path: str, attempt: Attempt, member: User
    ) -> None:
        headers = session_headers(member, f"http://{web.host}")
        with web.socket(self.path_of(path, attempt), headers=headers) as socket:
            assert next_message(socket)["type"] in ("attempt", "progress")

    def test_another_projects_member_is_closed_with_4404(self, web: WebProcess, path: str, attempt: Attempt) -> None:
        stranger = create_token(person(team()), "test").plain
        with web.socket(self.path_of(path, attempt), token=stranger) as socket:
            assert close_code(socket) == 4404

    def test_what_is_not_there_is_closed_with_4404(
        self, web: WebProcess, path: str, attempt: Attempt, token: str
    ) -> None:
        with web.socket(path.format(run=10**17, experiment=10**17), token=token) as socket:
            assert close_code(socket) == 4404


def test_a_bad_position_is_closed_with_4400(web: WebProcess, attempt: Attempt, token: str) -> None:
    with web.socket(f"/ws/runs/{attempt.run_id}?after=soon", token=token) as socket:
        assert close_code(socket) == 4400


def test_an_unknown_address_is_closed_with_4404(web: WebProcess, token: str) -> None:
    with web.socket("/ws/nothing", token=token) as socket:
        assert close_code(socket) == 4404


# A run


def test_a_whole_run_arrives_from_its_first_event_to_its_end(
    web: WebProcess, broker: redis.Redis, attempt: Attempt, token: str
) -> None:
    with recording(), web.socket(f"/ws/runs/{attempt.run_id}", token=token) as socket:
        assert next_message(socket) == {"type": "attempt", "attempt": 1}
        assert next_message(socket)["run"]["state"] == "running"
        send(broker, attempt, *whole_attempt())
        messages = messages_until(socket, is_end)
        assert ids_in(messages) == [f"1-{seq}" for seq in range(1, 8)]
        states = [message["run"] for message in messages if message["type"] == "state"]
        assert (states[-1]["state"], states[-1]["valid"]) == ("succeeded", False)
        assert "too_few_requests" in states[-1]["reasons"]
        assert close_code(socket) == 1000


def test_a_reload_in_mid_run_loses_no_event_and_doubles_none(
    web: WebProcess, broker: redis.Redis, attempt: Attempt, token: str
) -> None:
    total = 240

    def publish() -> None:
        for seq in range(1, total):
            send(broker, attempt, sample(seq / 4), first=seq)
        send(broker, attempt, Report(outcome="succeeded", events=total), first=total)

    with recording():
        sender = threading.Thread(target=publish)
        sender.start()
        seen: list[str] = []
        for stop_after in (20, 90, 150):
            after = seen[-1] if seen else "0-0"
            with web.socket(f"/ws/runs/{attempt.run_id}?after={after}", token=token) as socket:
                while len(seen) < stop_after:
                    seen += ids_in([next_message(socket)])
        with web.socket(f"/ws/runs/{attempt.run_id}?after={seen[-1]}", token=token) as socket:
            seen += ids_in(messages_until(socket, is_end))
        sender.join()
    assert seen == [f"1-{seq}" for seq in range(1, total + 1)]


def test_events_that_no_recorder_has_stored_come_from_the_stream(
    web: WebProcess, broker: redis.Redis, attempt: Attempt, token: str
) -> None:
    send(broker, attempt, *(sample(float(seq)) for seq in range(1, 6)))
    with web.socket(f"/ws/runs/{attempt.run_id}?after=1-2", token=token) as socket:
        assert ids_in(messages_until(socket, reaches("1-5"))) == ["1-3", "1-4", "1-5"]


def test_events_that_the_stream_no_longer_has_come_from_postgres(
    web: WebProcess, broker: redis.Redis, attempt: Attempt, token: str
) -> None:
    send(broker, attempt, *(sample(float(seq)) for seq in range(1, 6)))
    turn_until(Recorder(broker), attempt, 5)
    broker.flushall()
    with web.socket(f"/ws/runs/{attempt.run_id}", token=token) as socket:
        assert ids_in(messages_until(socket, reaches("1-5"))) == [f"1-{seq}" for seq in range(1, 6)]
        send(broker, attempt, sample(6.0), first=6)
        assert ids_in(messages_until(socket, reaches("1-6"))) == ["1-6"]


def test_a_hole_in_the_stream_is_waited_for(web: WebProcess, broker: redis.Redis, attempt: Attempt, token: str) -> None:
    send(broker, attempt, sample(1.0))
    with recording(), web.socket(f"/ws/runs/{attempt.run_id}", token=token) as socket:
        messages_until(socket, reaches("1-1"))
        send(broker, attempt, sample(3.0), first=3)
        # the recorder clears the stream past the hole, and the node sends again
        until(lambda: not broker.exists(f"node:{attempt.node.slug}:run:{attempt.run_id}"))
        send(broker, attempt, sample(2.0), sample(3.0), sample(4.0), first=2)
        assert ids_in(messages_until(socket, reaches("1-4"))) == ["1-2", "1-3", "1-4"]


def test_a_second_attempt_is_announced_and_followed(
    web: WebProcess, broker: redis.Redis, project: Project, token: str
) -> None:
    first = claimed(project, retries=1)
    with web.socket(f"/ws/runs/{first.run_id}", token=token) as socket:
        send(broker, first, sample(1.0), sample(2.0))
        messages_until(socket, reaches("1-2"))
        lose_attempt(first.id, "silent")
        second = claimed_again(first)
        send(broker, second, sample(9.0))
        messages = messages_until(socket, reaches("2-1"))
        assert {"type": "attempt", "attempt": 2} in messages
        assert ids_in(messages) == ["2-1"]


def claimed_again(first: Attempt) -> Attempt:
    place_runs()
    second = live_attempt(first.run)
    claim(second.node, second.run_id, second.number)
    return second


def test_two_sockets_on_one_run_both_get_everything(
    web: WebProcess, broker: redis.Redis, attempt: Attempt, token: str
) -> None:
    path = f"/ws/runs/{attempt.run_id}"
    with web.socket(path, token=token) as one, web.socket(path, token=token) as other:
        send(broker, attempt, *(sample(float(seq)) for seq in range(1, 51)))
        expected = [f"1-{seq}" for seq in range(1, 51)]
        assert ids_in(messages_until(one, reaches("1-50"))) == expected
        assert ids_in(messages_until(other, reaches("1-50"))) == expected


def test_a_slow_reader_is_told_what_was_dropped_and_can_ask_for_it(
    web: WebProcess, broker: redis.Redis, attempt: Attempt, token: str
) -> None:
    filler = b'{"kind":"log","wall_s":1,"level":"info","source":"x","message":"' + b"m" * 3000 + b'"}'
    total = 12_003
    path = f"/ws/runs/{attempt.run_id}"
    with (
        web.socket(path, token=token, max_queue=1, compression=None) as slow,
        web.socket(path, token=token) as quick,
    ):
        messages = []
        for seq in (1, 2, 3):
            send(broker, attempt, filler, first=seq)
            messages += messages_until(slow, reaches(f"1-{seq}"))
        for start in range(4, total + 1, 1000):
            send_many(broker, attempt, filler, start, 1000)
        # When the quick one has the last event it was offered to both; 36 MB fit neither the slow one's queue nor
        # the buffers of its connection.
        messages_until(quick, reaches(f"1-{total}"), within_s=60)
        messages += messages_until(slow, reaches(f"1-{total}"), within_s=60)
    dropped = [message for message in messages if message["type"] == "dropped"]
    seen = [int(event_id.split("-")[1]) for event_id in ids_in(messages)]
    assert dropped
    assert seen == sorted(set(seen))
    assert len(seen) + sum(message["count"] for message in dropped) == total
    attempt_number, at = dropped[0]["resume"].split("-")
    assert (attempt_number, int(at) in seen, int(at) + 1 in seen) == ("1", True, False)


def send_many(broker: redis.Redis, attempt: Attempt, text: bytes, first: int, count: int) -> None:
    with broker.pipeline(transaction=False) as pipe:
        for seq in range(first, first + count):
            pipe.xadd(f"node:{attempt.node.slug}:run:{attempt.run_id}", {"e": text}, id=f"{attempt.number}-{seq}")
        pipe.execute()


# An experiment


def test_progress_follows_the_runs_to_their_end(
    web: WebProcess, broker: redis.Redis, attempt: Attempt, token: str
) -> None:
    with recording(), web.socket(f"/ws/experiments/{attempt.run.experiment_id}", token=token) as socket:
        first = next_message(socket)
        assert first["experiment"]["state"] == "active"
        assert first["runs"][0]["state"] == "running"
        send(broker, attempt, sample(0.25))
        message = messages_until(socket, lambda message: bool(message["runs"][0]["sample"]))[-1]
        assert message["runs"][0]["sample"]["t_s"] == 0.25
        send(broker, attempt, Report(outcome="succeeded", events=2), first=2)
        last, end = messages_until(socket, is_end)[-2:]
        assert last["experiment"] == {
            "state": "done",
            "counts": {"queued": 0, "assigned": 0, "running": 0, "succeeded": 1, "failed": 0, "cancelled": 0},
        }
        assert last["runs"][0]["valid"] is False
        assert end == {"type": "end"}


def test_a_cancelled_experiment_is_followed_until_its_last_run_has_ended(
    web: WebProcess, attempt: Attempt, token: str
) -> None:
    experiment = attempt.run.experiment
    with web.socket(f"/ws/experiments/{experiment.id}", token=token) as socket:
        cancel_experiment(experiment.owner, experiment)
        cancelled = messages_until(socket, lambda message: message["experiment"]["state"] == "cancelled")[-1]
        assert cancelled["runs"][0]["state"] == "running"
        assert confirm_ended(attempt.id)
        last = messages_until(socket, lambda message: message["runs"][0]["state"] == "cancelled")[-1]
        assert last["experiment"]["counts"]["cancelled"] == 1


def test_a_run_that_can_not_be_watched_any_more_closes_its_sockets(
    web: WebProcess, attempt: Attempt, token: str
) -> None:
    experiment = attempt.run.experiment
    with web.socket(f"/ws/runs/{attempt.run_id}", token=token) as socket:
        messages_until(socket, lambda message: message["type"] == "state")
        attempt.delete()
        experiment.delete()
        assert close_code(socket) == 1011
