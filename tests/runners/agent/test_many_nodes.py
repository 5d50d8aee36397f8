"""One process that hosts several modelled nodes, against a real lab."""

from __future__ import annotations

import datetime as dt
import signal

import psutil
import pytest
from django.utils import timezone
from running_lab import Lab, Process
from stored_events import assert_all_stored_once

from hardware.models import Node
from hardware.services import retire

pytestmark = pytest.mark.django_db(transaction=True)
NAMES = ("n1", "n2")


def join_both(lab: Lab) -> list[Node]:
    """Two nodes that have joined, each in a home of its own; nobody runs them yet."""
    nodes = []
    for name in NAMES:
        node, token = lab.register(name, "modelled")
        command = [*lab.agent_command("join", name), lab.url, "--token", token, "--only-join"]
        assert lab.spawn(f"join-{name}", *command).popen.wait(60) == 0
        nodes.append(node)
    return nodes


def host_both(lab: Lab) -> Process:
    homes = [part for name in NAMES for part in ("--home", str(lab.home_of(name)))]
    return lab.spawn("host", "-m", "runners.node", "run", *homes, "--models", str(lab.models_dir))


def states(lab: Lab, nodes: list[Node]) -> set[str]:
    return {lab.state_of(node) for node in nodes}


def test_one_process_runs_two_nodes_loses_both_and_brings_both_back(lab: Lab) -> None:
    nodes = join_both(lab)
    host = host_both(lab)
    lab.wait_for(lambda: states(lab, nodes) == {"online"}, 60)
    runs = [lab.submit(node) for node in nodes]
    lab.wait(lambda: {lab.state_of(run) for run in runs} == {"succeeded"})
    assert [lab.attempt(run).node for run in runs] == nodes
    for run in runs:
        assert_all_stored_once(lab.attempt(run))

    started = host.descendants()
    host.end(signal.SIGKILL)
    lab.wait_for(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in started))
    # as if the time until a silent node is taken for lost were over
    Node.objects.update(last_seen_at=timezone.now() - dt.timedelta(seconds=60))
    lab.wait(lambda: states(lab, nodes) == {"lost"})

    host_both(lab)
    lab.wait_for(lambda: states(lab, nodes) == {"online"}, 60)


def test_a_node_that_is_retired_leaves_the_other_at_work_and_sigterm_ends_that(lab: Lab) -> None:
    first, second = nodes = join_both(lab)
    host = host_both(lab)
    lab.wait_for(lambda: states(lab, nodes) == {"online"}, 60)
    retire(first)
    lab.wait_for(lambda: "no longer knows this node" in host.said())
    run = lab.submit(second)
    lab.wait(lambda: lab.state_of(run) == "succeeded")
    assert host.end(within_s=15) == 0


def test_one_home_given_twice_is_refused(lab: Lab) -> None:
    join_both(lab)
    home = str(lab.home_of("n1"))
    agent = lab.spawn("twice", "-m", "runners.node", "run", "--home", home, "--home", home)
    assert agent.popen.wait(30) == 1
    assert "an agent already works in" in agent.said()


def test_two_homes_can_not_join_with_one_token(lab: Lab) -> None:
    agent = lab.spawn("both", *lab.agent_command("join", "n1"), "--home", "other", lab.url, "--token", "t")
    assert agent.popen.wait(30) == 2
    assert "one node joins at a time" in agent.said()
