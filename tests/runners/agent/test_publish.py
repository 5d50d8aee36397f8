"""runners.agent.publish against a real broker: every event once, in order, whatever happens to the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from labsite.valkey import EmbeddedValkey
from runners.agent.broker import BrokerError, StreamBroker
from runners.agent.home import NodeHome
from runners.agent.publish import Publisher, PublisherThread
from runners.events import Log, Report
from runners.spool import AttemptKey, SpoolWriter

KEY = AttemptKey(7, 2)


def stream_key(run_id: int) -> str:
    return f"node:n1:run:{run_id}"


@pytest.fixture
def home(tmp_path: Path) -> NodeHome:
    return NodeHome(tmp_path)


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def publisher(home: NodeHome, redis_url: str) -> Publisher:
    publisher = Publisher(home, StreamBroker(redis_url), stream_key)
    publisher.heard({})
    return publisher


def spool(home: NodeHome, count: int, *, key: AttemptKey = KEY, report: bool = False) -> SpoolWriter:
    writer = SpoolWriter(home.spool(key))
    first = writer.events + 1
    writer.append(Log(wall_s=0, level="info", source="t", message=str(n)) for n in range(first, first + count))
    if report:
        writer.close_with(Report(outcome="succeeded"))
    else:
        writer.close()
    return writer


def ids(client: redis.Redis, run_id: int = KEY.run_id) -> list[str]:
    return [entry_id.decode() for entry_id, _ in client.xrange(stream_key(run_id))]


def expected(first: int, last: int, attempt: int = KEY.attempt) -> list[str]:
    return [f"{attempt}-{seq}" for seq in range(first, last + 1)]


def publish_all(publisher: Publisher) -> None:
    """Until three rounds in a row have nothing to send (a rewind takes one)."""
    idle = 0
    while idle < 3:
        idle = 0 if publisher.publish() else idle + 1


def test_events_go_out_under_their_numbers_and_their_text(
    home: NodeHome, publisher: Publisher, client: redis.Redis
) -> None:
    spool(home, 1200, report=True)
    publish_all(publisher)
    assert ids(client) == expected(1, 1201)
    entries = client.xrange(stream_key(KEY.run_id))
    assert [fields[b"e"] for _, fields in entries] == home.spool(KEY).read_bytes().splitlines()


def test_nothing_is_sent_before_the_cursors_are_known(home: NodeHome, redis_url: str, client: redis.Redis) -> None:
    spool(home, 3)
    publisher = Publisher(home, StreamBroker(redis_url), stream_key)
    assert publisher.publish() == 0
    assert ids(client) == []


def test_a_new_agent_goes_on_where_the_stream_ends(
    home: NodeHome, publisher: Publisher, client: redis.Redis, redis_url: str
) -> None:
    spool(home, 40)
    publish_all(publisher)
    spool(home, 20, report=True)
    another = Publisher(home, StreamBroker(redis_url), stream_key)
    another.heard({})
    publish_all(another)
    assert ids(client) == expected(1, 61)


def test_what_is_stored_is_not_sent_again_where_the_stream_is_gone(
    home: NodeHome, publisher: Publisher, client: redis.Redis
) -> None:
    spool(home, 30)
    publisher.heard({str(KEY): 25})
    publish_all(publisher)
    assert ids(client) == expected(26, 30)


def test_a_stream_that_loses_its_end_gets_it_again(
    home: NodeHome, publisher: Publisher, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.agent.publish.CHECK_S", 0.0)
    spool(home, 50)
    publish_all(publisher)
    client.delete(stream_key(KEY.run_id))
    for seq in range(1, 21):  # as a broker whose file lacks the last second comes back
        client.xadd(stream_key(KEY.run_id), {"e": "x"}, id=f"2-{seq}")
    publish_all(publisher)
    assert ids(client) == expected(1, 50)


def test_a_hole_is_mended_once_the_cursor_stands_still_before_it(
    home: NodeHome, publisher: Publisher, client: redis.Redis
) -> None:
    spool(home, 30)
    publish_all(publisher)
    client.xdel(stream_key(KEY.run_id), *expected(11, 13))
    for _ in range(4):
        publisher.heard({str(KEY): 10})
        publish_all(publisher)
    assert ids(client) == expected(11, 30)


def test_a_slow_recorder_is_no_hole(home: NodeHome, publisher: Publisher, client: redis.Redis) -> None:
    spool(home, 30)
    publish_all(publisher)
    for _ in range(6):
        publisher.heard({str(KEY): 10})
        publish_all(publisher)
    assert ids(client) == expected(1, 30)


def test_a_node_that_is_ahead_by_its_quota_waits(home: NodeHome, redis_url: str, client: redis.Redis) -> None:
    publisher = Publisher(home, StreamBroker(redis_url), stream_key, quota=25)
    publisher.heard({})
    spool(home, 100)
    publish_all(publisher)
    assert ids(client) == expected(1, 25)
    publisher.heard({str(KEY): 20})
    publish_all(publisher)
    assert ids(client) == expected(1, 45)


def test_an_attempt_with_a_successor_is_no_longer_sent(
    home: NodeHome, publisher: Publisher, client: redis.Redis
) -> None:
    client.xadd(stream_key(KEY.run_id), {"e": "x"}, id="3-1")
    spool(home, 10)
    publish_all(publisher)
    assert ids(client) == ["3-1"]


def test_a_later_attempt_follows_an_earlier_one_in_the_same_stream(
    home: NodeHome, publisher: Publisher, client: redis.Redis
) -> None:
    spool(home, 5, report=True)
    spool(home, 5, key=AttemptKey(7, 3), report=True)
    publish_all(publisher)
    assert ids(client) == expected(1, 6) + expected(1, 6, attempt=3)


def test_a_discarded_spool_is_forgotten(home: NodeHome, publisher: Publisher, client: redis.Redis) -> None:
    spool(home, 5)
    publish_all(publisher)
    home.discard(KEY)
    assert publisher.publish() == 0
    assert home.spooled() == []


def test_a_broker_that_refuses_is_an_error_and_leaves_no_hole(home: NodeHome, redis_url: str) -> None:
    broker = StreamBroker(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        client.set(stream_key(KEY.run_id), "no stream")
    with pytest.raises(BrokerError, match="WRONGTYPE"):
        broker.add(stream_key(KEY.run_id), 1, 1, [b"x"])


def test_a_broker_killed_in_mid_run_loses_and_doubles_nothing(tmp_path: Path, wait_for: Callable[..., None]) -> None:
    """kill -9 and restart of a real server, twice, while events are written."""
    home = NodeHome(tmp_path / "node")
    valkey = EmbeddedValkey(tmp_path / "broker", outlives_us=False)
    valkey.start()
    publisher = Publisher(home, StreamBroker(valkey.url), stream_key)
    publisher.heard({})
    thread = PublisherThread(publisher)
    thread.start()
    writer = SpoolWriter(home.spool(KEY))
    try:
        for number in range(1, 2001):
            writer.append([Log(wall_s=0, level="info", source="t", message=str(number))])
            if number in (500, 1500):
                assert thread.wait_until_sent(10)
                assert valkey.process is not None
                valkey.process.kill()
                valkey.process.wait()
                valkey.start()
        writer.close_with(Report(outcome="succeeded"))
        with redis.Redis.from_url(valkey.url) as client:
            wait_for(lambda: ids(client)[-1:] == ["2-2001"], within_s=30)
            assert ids(client) == expected(1, 2001)
    finally:
        thread.stop()
        valkey.stop()
