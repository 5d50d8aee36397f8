"""A node's agent against a real lab, on a modelled node: joining, taking runs, delivering them, leaving."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import psutil
import pytest
from running_lab import Lab, free_port, workload
from stored_events import assert_all_stored_once

from experiments.dispatch import send_attempt
from experiments.models import RequestRecord, Run
from hardware.models import Node
from hardware.services import retire
from runners.spool import RESERVE

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_node_joins_with_credentials_of_its_own_and_says_what_it_is(lab: Lab) -> None:
    node, agent = lab.join("n1")
    kept = lab.home_of("n1") / "node.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    credentials = json.loads(kept.read_text())
    assert credentials["node"] == "n1" and credentials["kind"] == "modelled"
    lab.wait_for(lambda: Node.objects.get(pk=node.pk).facts.get("modelled") is True)
    assert Node.objects.get(pk=node.pk).agent_version
    assert agent.end() == 0


def test_runs_are_executed_and_every_event_is_stored_once(lab: Lab) -> None:
    node, _ = lab.join("n1")
    experiment = lab.submit_all(node, matrix={"engine.max_num_seqs": [1, 2]}, repeats=2)
    lab.wait(lambda: set(experiment.runs.values_list("state", flat=True)) == {"succeeded"})
    for run in experiment.runs.all():
        attempt = lab.attempt(run)
        assert_all_stored_once(attempt)
        assert attempt.report["modelled"] is True
        assert attempt.report["facts"]["calibration"] == "calibrated"
        assert RequestRecord.objects.filter(run_id=run.pk, phase="measured", status="ok").count() == 24
    lab.wait_for(lambda: [path.name for path in (lab.home_of("n1") / "spool").iterdir()] == [RESERVE])


def test_a_message_that_comes_twice_starts_nothing_twice(lab: Lab) -> None:
    node, agent = lab.join("n1")
    run = lab.submit(node)
    for _ in range(3):
        send_attempt(node.slug, run.pk, 1)
    lab.wait(lambda: lab.state_of(run) == "succeeded")
    send_attempt(node.slug, run.pk, 1)
    another = lab.submit(node)
    lab.wait(lambda: lab.state_of(another) == "succeeded")
    assert Run.objects.get(pk=run.pk).attempts_made == 1
    assert_all_stored_once(lab.attempt(run))
    lab.wait_for(lambda: agent.said().count("the message is ignored") >= 3)


def test_a_message_for_a_run_that_is_not_this_nodes_is_ignored(lab: Lab) -> None:
    node, agent = lab.join("n1")
    send_attempt(node.slug, 4711, 1)
    lab.wait_for(lambda: "run 4711, attempt 1 is not for this node" in agent.said())
    run = lab.submit(node)
    lab.wait(lambda: lab.state_of(run) == "succeeded")


def test_a_run_that_the_chip_cannot_hold_fails_with_the_reason_and_no_retry(lab: Lab) -> None:
    node, _ = lab.join("n1")
    run = lab.submit(node, retries=3)
    spec = run.spec | {"model": run.spec["model"] | {"shape": run.spec["model"]["shape"] | {"ffn": 10**9}}}
    Run.objects.filter(pk=run.pk).update(spec=spec)
    lab.wait(lambda: lab.state_of(run) == "failed")
    run.refresh_from_db()
    assert run.attempts_made == 1
    assert "can't be modelled" in run.reason


def test_sigterm_ends_the_agent_and_everything_it_started(lab: Lab) -> None:
    _, agent = lab.join("n1")
    lab.wait_for(lambda: agent.descendants())
    started = agent.descendants()
    assert agent.end(within_s=8) == 0
    assert [child for child in started if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []


def test_a_node_that_has_joined_runs_again_without_a_token(lab: Lab) -> None:
    node, agent = lab.join("n1")
    assert agent.end() == 0
    lab.run_agent("n1")
    run = lab.submit(node)
    lab.wait(lambda: lab.state_of(run) == "succeeded")


def test_a_retired_node_stops_with_a_clear_line(lab: Lab) -> None:
    node, agent = lab.join("n1")
    retire(node)
    lab.wait_for(lambda: agent.popen.poll() is not None)
    assert agent.popen.returncode == 3
    assert "no longer knows this node" in agent.said()


def test_two_agents_cannot_share_a_home(lab: Lab) -> None:
    _, first = lab.join("n1")
    second = lab.run_agent("n1")
    assert second.popen.wait(20) == 1
    assert f"an agent already works in {lab.home_of('n1')} (pid {first.pid})" in second.said()


@pytest.mark.parametrize("token", ["used", "invented"])
def test_a_token_that_does_not_count_is_refused_with_the_labs_words(lab: Lab, token: str) -> None:
    _, good = lab.register("n1", "modelled")
    command = lab.agent_command("join", "n1")
    if token == "used":
        lab.spawn("first", *command, lab.url, "--token", good)
        lab.wait_for(lambda: (lab.home_of("n1") / "node.json").exists())
    text = good if token == "used" else "invented"
    agent = lab.spawn("second", *lab.agent_command("join", "n2"), lab.url, "--token", text)
    assert agent.popen.wait(20) == 1
    assert agent.said().startswith("error: ") and "token" in agent.said()
    assert not (lab.home_of("n2") / "node.json").exists()


def test_an_address_without_a_lab_is_named(lab: Lab, tmp_path: Path) -> None:
    for address, words in (
        (f"http://127.0.0.1:{free_port()}", "no answer from the lab"),
        (f"{lab.url}/admin", "not as a lab does"),
        ("nonsense", "no address of a lab"),
    ):
        agent = lab.spawn("wrong", *lab.agent_command("join", "n9"), address, "--token", "x")
        assert agent.popen.wait(30) == 1
        assert words in agent.said()


def test_a_home_without_a_node_says_how_to_join(lab: Lab) -> None:
    agent = lab.run_agent("nobody")
    assert agent.popen.wait(20) == 1
    assert "join one with `inference-lab-node join URL --token TOKEN`" in agent.said()


def test_what_was_left_by_a_dead_agent_is_reported_and_tried_again(lab: Lab) -> None:
    """A claimed attempt of which only an empty spool is left: the agent died before the run began."""
    node, agent = lab.join("n1")
    assert agent.end() == 0
    run = lab.submit(node, workload=workload(num_requests=21))
    spool = lab.home_of("n1") / "spool" / f"{run.pk}-1.jsonl"
    spool.touch()
    lab.run_agent("n1")
    lab.wait(lambda: lab.state_of(run) == "succeeded")
    assert lab.attempt(run, 1).reason == "the node's agent ended while the run was under way"
    assert lab.attempt(run, 2).state == "succeeded"
