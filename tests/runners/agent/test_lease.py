"""runners.agent.lease: counted from when a heartbeat was sent, kept by a thread that nothing else can stall."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from scripted_lab import ScriptedLab

from runners.agent.control import ControlPlane, HeartbeatReply, Refused
from runners.agent.lease import HEARTBEAT_S, RETRY_S, Lease, LeaseThread

GOOD = {"lease_s": 15, "heartbeat_s": 0.05, "cancel": [], "stored": {"1-1": 3}, "discard": [], "drain": False}


class Node:
    """The agent's loop, as the lease thread sees it."""

    def __init__(self) -> None:
        self.replies: list[HeartbeatReply] = []
        self.refusal: Refused | None = None

    def heartbeat_body(self) -> dict[str, Any]:
        return {"running": None}

    def heard(self, body: dict[str, Any], reply: HeartbeatReply) -> None:
        self.replies.append(reply)

    def banished(self, refusal: Refused) -> None:
        self.refusal = refusal


@pytest.fixture
def server() -> Iterator[ScriptedLab]:
    server = ScriptedLab()
    server.answers = [(200, GOOD)]
    yield server
    server.close()


def thread_for(server: ScriptedLab, node: Node, lease: Lease) -> LeaseThread:
    return LeaseThread(ControlPlane(server.url, "token"), lease, node)


def test_a_lease_runs_out_at_its_end_and_not_before_it_was_given() -> None:
    now = 0.0
    lease = Lease(lambda: now)
    now = 1e9
    assert not lease.expired
    lease.renew(now, 15)
    now += 15
    assert not lease.expired
    now += 0.01
    assert lease.expired
    lease.renew(now, 15)
    assert not lease.expired


def test_an_answer_renews_the_lease_and_is_handed_on(server: ScriptedLab) -> None:
    node, lease = Node(), Lease()
    assert thread_for(server, node, lease).beat() == 0.05
    assert node.replies[0].stored == {"1-1": 3}
    assert not lease.expired


@pytest.mark.parametrize(
    "bad",
    [None, (502, b"bad gateway"), (200, b"<html>not a lab</html>"), (404, b"nothing here"), (200, {"lease_s": "x"})],
)
def test_an_answer_that_is_none_renews_nothing_and_is_tried_again_soon(server: ScriptedLab, bad: Any) -> None:
    node, now = Node(), 0.0
    lease = Lease(lambda: now)
    lease.renew(0.0, 15)
    server.answers = [bad]
    now = 20.0
    assert thread_for(server, node, lease).beat() == RETRY_S
    assert lease.expired and node.replies == [] and node.refusal is None


@pytest.mark.parametrize("status", [401, 403])
def test_a_node_that_is_no_longer_known_is_told_so_and_asks_no_more(server: ScriptedLab, status: int) -> None:
    server.answers = [(status, {"detail": "this node was retired", "errors": []})]
    node = Node()
    thread = thread_for(server, node, Lease())
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert node.refusal is not None and node.refusal.detail == "this node was retired"
    assert len(server.requests) == 1


def test_a_refusal_of_one_heartbeat_is_not_the_end(server: ScriptedLab) -> None:
    server.answers = [(422, {"detail": "facts are too large", "errors": []})]
    node = Node()
    assert thread_for(server, node, Lease()).beat() == HEARTBEAT_S
    assert node.refusal is None


def test_the_thread_beats_until_it_is_stopped(server: ScriptedLab) -> None:
    node = Node()
    thread = thread_for(server, node, Lease())
    thread.start()
    deadline = threading.Event()
    while len(node.replies) < 3:
        assert not deadline.wait(0.02)
    thread.stop()
    thread.join(10)
    assert not thread.is_alive()
