"""A node's broker user, on a real Valkey: it can do a node's work on the node's keys, and nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from experiments.dispatch import send_attempt
from hardware import broker

NODE, OTHER = "alpha", "alpha-2"
PASSWORD = "a password of this test"


@pytest.fixture
def admin(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        broker.sync_users([])
        yield client
    broker.sync_users([])


def user_of(slug: str, password: str = PASSWORD) -> broker.BrokerUser:
    digest = hashlib.sha256(password.encode()).hexdigest()
    return broker.BrokerUser(broker.username(slug), digest, broker.node_prefix(slug))


@pytest.fixture
def node(admin: redis.Redis) -> Iterator[redis.Redis]:
    broker.set_user(user_of(NODE))
    with redis.Redis.from_url(node_url(), decode_responses=True) as client:
        yield client


def node_url(password: str = PASSWORD) -> str:
    return broker.node_broker_url(broker.username(NODE), password)


def test_a_node_appends_to_its_own_stream_and_reads_where_it_stands(node: redis.Redis) -> None:
    key = broker.stream_key(NODE, 7)
    for seq in (1, 2):
        node.xadd(key, {"e": "{}"}, id=f"1-{seq}")
    assert node.xinfo_stream(key)["last-generated-id"] == "1-2"
    assert node.xrevrange(key, count=1)[0][0] == "1-2"
    with pytest.raises(redis.ResponseError, match="equal or smaller"):
        node.xadd(key, {"e": "{}"}, id="1-2")


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda c, k: c.xadd(k, {"e": "{}"}),
        lambda c, k: c.xrange(k),
        lambda c, k: c.xread({k: "0"}),
        lambda c, k: c.lpush(k, "x"),
        lambda c, k: c.get(k),
        lambda c, k: c.set(k, "x"),
        lambda c, k: c.delete(k),
        lambda c, k: c.exists(k),
    ],
    ids=["xadd", "xrange", "xread", "lpush", "get", "set", "del", "exists"],
)
@pytest.mark.parametrize(
    "key", [broker.stream_key(OTHER, 7), "celery", "node:", "node:alpha", "_kombu.binding.control"]
)
def test_a_node_reaches_no_other_key(
    node: redis.Redis, key: str, forbidden: Callable[[redis.Redis, str], object]
) -> None:
    with pytest.raises(redis.exceptions.NoPermissionError):
        forbidden(node, key)


@pytest.mark.parametrize(
    "command",
    [
        "KEYS *", "SCAN 0", "RANDOMKEY", "DBSIZE", "CONFIG GET *", "CONFIG SET maxmemory 1", "FLUSHALL", "FLUSHDB",
        "INFO",
        "ACL LIST", "ACL WHOAMI", "CLIENT LIST", "CLIENT KILL ID 1", "MONITOR", "SHUTDOWN", "SAVE",
        "PUBLISH any x", "SUBSCRIBE any", "PSUBSCRIBE *", "REPLICAOF NO ONE", "SWAPDB 0 1", "FUNCTION LIST",
        "EVAL return(1) 0", "SCRIPT FLUSH", "XTRIM node:alpha:run:7 MAXLEN 0", "MIGRATE h 1 k 0 1", "SORT node:alpha:x",
    ],
)  # fmt: skip
def test_a_node_may_not_run_commands_that_show_or_touch_more(node: redis.Redis, command: str) -> None:
    with pytest.raises(redis.exceptions.NoPermissionError):
        node.execute_command(*command.split())


def test_a_script_can_not_reach_further_than_its_caller(node: redis.Redis) -> None:
    sha = node.script_load("return redis.call('get', KEYS[1])")
    assert node.evalsha(sha, 1, "node:alpha:own") is None
    with pytest.raises(redis.exceptions.NoPermissionError):
        node.evalsha(sha, 1, "node:alpha-2:own")
    hidden = node.script_load("return redis.call('get', 'node:alpha-2:own')")
    with pytest.raises(redis.ResponseError, match=r"can't access|No permission|NOPERM"):
        node.evalsha(hidden, 0)


def test_a_wrong_password_opens_nothing(node: redis.Redis) -> None:
    with redis.Redis.from_url(node_url("another")) as client, pytest.raises(redis.exceptions.AuthenticationError):
        client.ping()


def test_the_broker_holds_the_passwords_hash_alone(node: redis.Redis, admin: redis.Redis) -> None:
    line = next(line for line in admin.acl_list() if " node-alpha " in f" {line} ")
    assert PASSWORD not in line
    assert hashlib.sha256(PASSWORD.encode()).hexdigest() in line


def test_users_are_made_renewed_and_removed_until_they_are_those_wanted(admin: redis.Redis) -> None:
    assert broker.sync_users([user_of(NODE), user_of(OTHER)]) == 2
    assert broker.sync_users([user_of(NODE), user_of(OTHER)]) == 0
    assert broker.sync_users([user_of(NODE, "rotated"), user_of(OTHER)]) == 1
    admin.execute_command("ACL", "SETUSER", "node-alpha", "~other:*", "&news")
    assert broker.sync_users([user_of(NODE, "rotated")]) == 2
    assert "other" not in str(admin.acl_getuser("node-alpha"))
    assert {"node-alpha"} == {name for name in admin.acl_users() if name.startswith("node-")}
    admin.acl_deluser("node-alpha")
    assert broker.sync_users([user_of(NODE, "rotated")]) == 1
    assert "default" in admin.acl_users()


def test_a_user_that_was_removed_is_thrown_out(node: redis.Redis) -> None:
    assert node.ping()
    broker.delete_users([broker.username(NODE)])
    with pytest.raises(redis.RedisError):
        node.ping()


@pytest.fixture
def worker(node: redis.Redis, tmp_path: Path) -> Iterator[Path]:
    """The log of a Celery worker that works as the node."""
    log = tmp_path / "worker.log"
    env = os.environ | {"BROKER_URL": node_url(), "KEY_PREFIX": broker.node_prefix(NODE)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("node_worker.py"))],
            env=env, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield log
        finally:
            process.terminate()
            process.wait(20)


def test_a_celery_worker_takes_its_messages_as_the_nodes_user(worker: Path, admin: redis.Redis) -> None:
    for run_id in (7, 8):
        send_attempt(NODE, run_id, 3)
    send_attempt(OTHER, 9, 1)

    def all_done() -> bool:
        return all(admin.exists(broker.stream_key(NODE, run_id)) for run_id in (7, 8))

    wait_until(all_done, worker)
    # a worker that starts looks for messages left unacknowledged, which takes the lock's commands
    wait_until(lambda: "ready" in worker.read_text(), worker)
    assert admin.xrange(broker.stream_key(NODE, 7)) == [("3-1", {"e": "{}"})]
    assert admin.llen(f"{broker.node_prefix(OTHER)}runs") == 1
    assert all(key.startswith(("node:alpha:", "node:alpha-2:")) for key in admin.scan_iter())
    assert "NOPERM" not in worker.read_text() and "No permissions" not in worker.read_text()


def wait_until(condition: Callable[[], bool], log: Path, limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
