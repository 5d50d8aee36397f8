"""Several nodes in one process: what the process says when they end."""

from __future__ import annotations

import threading

import pytest

from runners.agent.host import CRASHED, Host
from runners.agent.loop import BANISHED, CLEAN_END


class Node:
    """An agent that ends with a status, fails, or works until it is told to stop."""

    def __init__(self, status: int | None = None, fault: Exception | None = None) -> None:
        self._status, self._fault = status, fault
        self.told = threading.Event()

    def run(self) -> int:
        if self._fault is not None:
            raise self._fault
        if self._status is not None:
            return self._status
        assert self.told.wait(20)
        return CLEAN_END

    def ask_to_stop(self) -> None:
        self.told.set()


@pytest.mark.parametrize(
    ("nodes", "status"),
    [
        ([Node(CLEAN_END), Node(CLEAN_END)], CLEAN_END),
        ([Node(BANISHED)], BANISHED),
        ([Node(BANISHED), Node(BANISHED)], BANISHED),
        ([Node(BANISHED), Node(CLEAN_END)], CLEAN_END),
        ([], CLEAN_END),
    ],
)
def test_the_process_ends_with_what_its_nodes_ended_with(nodes: list[Node], status: int) -> None:
    assert Host(nodes).run() == status


def test_a_node_that_fails_ends_the_others_and_the_process(caplog: pytest.LogCaptureFixture) -> None:
    other = Node()
    assert Host([other, Node(fault=RuntimeError("a fault of its own"))]).run() == CRASHED
    assert other.told.is_set()
    assert "a fault of its own" in caplog.text


def test_all_nodes_are_told_to_stop() -> None:
    nodes = [Node(), Node()]
    host = Host(nodes)
    running = threading.Thread(target=host.run)
    running.start()
    host.ask_to_stop()
    running.join(20)
    assert all(node.told.is_set() for node in nodes)
