"""The broker as the control plane sees it: key names of a node, and the ACL user that keeps it to them.

A node's user may run the commands of a Celery worker and of its own streams, on keys below `node:<slug>:` alone.
The list of commands is closed: anything that shows or touches other keys (KEYS, SCAN, CONFIG, FLUSHALL, pub/sub)
is not in it. Passwords are given as SHA-256; the broker and the database never hold one in plain text.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import redis
from django.conf import settings

USER_PREFIX = "node-"
QUEUE = "runs"
CONNECT_TIMEOUT_S = 3.0

# Own streams: xadd, xinfo, xrange … Celery's Redis transport: lists (queues), sets (bindings), hashes and sorted sets
# (unacknowledged messages), a lock (set, evalsha) and transactions. Trimming and deleting streams is the recorder's.
COMMANDS = (
    "auth", "hello", "ping", "echo", "quit", "reset", "select", "client|setinfo", "client|setname", "client|id",
    "xadd", "xinfo|stream", "xlen", "xrange", "xrevrange", "xread",
    "brpop", "rpop", "lpush", "rpush", "llen", "lindex", "lrange", "lrem",
    "sadd", "srem", "smembers", "scard", "sismember",
    "hget", "hset", "hdel", "hlen", "hgetall", "zadd", "zrem", "zcard", "zrange", "zrevrangebyscore", "zrangebyscore",
    "get", "set", "del", "exists", "expire", "pexpire", "ttl", "pttl", "type",
    "multi", "exec", "discard", "watch", "unwatch", "evalsha", "script|load",
)  # fmt: skip


@dataclass(frozen=True)
class BrokerUser:
    """What the broker must hold for a node: the user's name, the SHA-256 of its password, its key prefix."""

    name: str
    digest: str
    key_prefix: str


def node_prefix(slug: str) -> str:
    """Every broker key of the node begins with this (Celery's `global_keyprefix` too)."""
    return f"node:{slug}:"


def stream_key(slug: str, run_id: int) -> str:
    return f"{node_prefix(slug)}run:{run_id}"


def username(slug: str) -> str:
    return f"{USER_PREFIX}{slug}"


def new_password() -> str:
    return secrets.token_urlsafe(32)


@cache
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_connect_timeout=CONNECT_TIMEOUT_S, socket_timeout=CONNECT_TIMEOUT_S, decode_responses=True
    )


def admin_client() -> redis.Redis:
    """The control plane's own connection pool; text comes back as str."""
    return _client(settings.REDIS_URL)


def _command(*words: str) -> Any:
    return admin_client().execute_command(*words)  # type: ignore[no-untyped-call]


def node_broker_url(user: str, password: str) -> str:
    """The address that a node is given: the broker's public one, with the node's own credentials in it."""
    parts = urlsplit(settings.LAB_BROKER_PUBLIC_URL)
    host = parts.hostname or "127.0.0.1"
    host = f"[{host}]" if ":" in host else host
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{host}:{parts.port or 6379}"
    return urlunsplit((parts.scheme, netloc, parts.path or "/0", parts.query, ""))


def set_user(user: BrokerUser) -> None:
    """Makes the user exactly this, whatever it was. Raises redis.RedisError."""
    rules = ["reset", "on", f"#{user.digest}", f"~{user.key_prefix}*", "resetchannels", "-@all"]
    _command("ACL", "SETUSER", user.name, *rules, *(f"+{name}" for name in COMMANDS))


def delete_users(names: Iterable[str]) -> None:
    """Removes users and closes their connections. Raises redis.RedisError."""
    for name in names:
        _command("ACL", "DELUSER", name)


@dataclass(frozen=True)
class UserFaults:
    """How the broker's node users differ from those wanted."""

    to_set: list[BrokerUser]
    to_delete: list[str]

    def __len__(self) -> int:
        return len(self.to_set) + len(self.to_delete)


def find_faults(wanted: Iterable[BrokerUser]) -> UserFaults:
    """One ACL LIST, so it can be asked at every tick. Raises redis.RedisError."""
    held = {line.split(" ")[1]: line for line in _command("ACL", "LIST")}
    expected = {user.name: user for user in wanted}
    to_set = [user for name, user in expected.items() if not _is_as_wanted(held.get(name, ""), user)]
    return UserFaults(to_set, [name for name in held if name.startswith(USER_PREFIX) and name not in expected])


def sync_users(wanted: Iterable[BrokerUser]) -> int:
    """Makes the broker hold these node users and no other; says how many it changed. Raises redis.RedisError."""
    faults = find_faults(wanted)
    for user in faults.to_set:
        set_user(user)
    delete_users(faults.to_delete)
    return len(faults)


def _is_as_wanted(line: str, user: BrokerUser) -> bool:
    words = line.split(" ")
    commands = {word[1:] for word in words if word.startswith("+")}
    reach = {word for word in words if word[:1] in ("~", "%", "&", "(")}
    passwords = {word for word in words if word[:1] in ("#", ">")}
    return (
        "on" in words
        and commands == set(COMMANDS)
        and reach == {f"~{user.key_prefix}*"}
        and passwords == {f"#{user.digest}"}
    )
