"""`inference-lab check` against a real web server: what a build sees, and whether it may go on."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import member
from cli_terminal import Terminal
from control_plane import ready_node, team
from ended_runs import ended

from experiments.models import Experiment
from hardware.models import Node
from labsite.accounts.models import Project, Role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def project() -> Project:
    return team()


@pytest.fixture
def node(project: Project) -> Node:
    return ready_node("bench")


@pytest.fixture
def lab(live_server: Any, redis_url: str, project: Project, terminal: Terminal) -> Terminal:
    caller = member(project, Role.VIEWER)
    terminal.env = {"LAB_URL": live_server.url, "LAB_TOKEN": str(caller.token)}
    return terminal


@pytest.fixture
def baseline(project: Project, node: Node) -> Experiment:
    return ended(project, node, [[100.0, 101.0, 99.0, 100.5]])


def test_a_regression_ends_with_status_1_and_says_why(
    lab: Terminal, project: Project, node: Node, baseline: Experiment
) -> None:
    worse = ended(project, node, [[90.0, 91.0, 89.0, 90.5]], day=1)
    said = lab.run("check", worse.pk, "--baseline", baseline.pk)
    assert said.status == 1
    assert "regressed" in said.out and "-10.0%" in said.out and "noise floor" in said.out
    as_json = lab.run("check", worse.pk, "--baseline", "last:4", "--effect", "0.04", "--json")
    assert (as_json.status, as_json.json["outcome"]) == (1, "regressed")
    assert as_json.json["findings"][0]["effect"] == 0.04


def test_equal_settings_pass(lab: Terminal, project: Project, node: Node, baseline: Experiment) -> None:
    same = ended(project, node, [[100.2, 99.1, 100.9, 100.1]], day=1)
    said = lab.good("check", same.pk, "--baseline", "last:4", "--fail-on", "regression", "--fail-on", "inconclusive")
    assert "unchanged" in said.out


def test_too_little_power_fails_only_where_that_was_asked_for(
    lab: Terminal, project: Project, node: Node, baseline: Experiment
) -> None:
    noisy = ended(project, node, [[80.0, 120.0]], day=1)
    assert "inconclusive" in lab.good("check", noisy.pk, "--baseline", baseline.pk).out
    assert lab.run("check", noisy.pk, "--baseline", baseline.pk, "--fail-on", "inconclusive").status == 1


def test_what_is_asked_wrongly_is_no_verdict(lab: Terminal, baseline: Experiment) -> None:
    assert lab.run("check", baseline.pk, "--fail-on", "anything").status == 2
    refused = lab.run("check", baseline.pk, "--metric", "nonsense")
    assert refused.status == 3
    assert "output_throughput" in refused.err
    assert lab.run("check", baseline.pk, "--baseline", "yesterday").status == 3
