"""POST /api/v1/node/heartbeat and /claim: what an agent says and what it is told."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from control_plane import live_attempt, ready_node, store_report, submit, team
from django.test import Client
from django.utils import timezone

from experiments.models import Attempt, Experiment, Run
from experiments.services import cancel_run, lose_attempt, place_runs
from hardware.messages import JoinRequest
from hardware.models import Node
from hardware.services import drain, issue_join_token, join, retire, rotate
from labsite.accounts.models import User
from labsite.accounts.tokens import create_token
from runners.protocol import HEADER, NODE_PROTOCOL

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


class Agent:
    """A node's agent, as far as REST goes."""

    def __init__(self) -> None:
        self.node = ready_node()
        self.token = join(JoinRequest(token=issue_join_token(self.node))).api_token

    def post(self, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", HEADER: str(NODE_PROTOCOL)}
        return Client().post(f"/api/v1/node/{path}", body, content_type="application/json", headers=headers)

    def beat(self, **body: Any) -> dict[str, Any]:
        answer = self.post("heartbeat", body)
        assert answer.status_code == 200, answer.content
        told: dict[str, Any] = answer.json()
        return told

    def claim(self, attempt: Attempt) -> Any:
        return self.post("claim", ref(attempt))


def ref(attempt: Attempt) -> dict[str, int]:
    return {"run_id": attempt.run_id, "attempt": attempt.number}


def name(attempt: Attempt) -> str:
    return f"{attempt.run_id}-{attempt.number}"


def running(agent: Agent, **changes: Any) -> tuple[Experiment, Attempt]:
    experiment = submit(team(), **changes)
    place_runs()
    attempt = live_attempt(experiment.runs.get(position=0))
    assert agent.claim(attempt).status_code == 200
    return experiment, attempt


def claimed_s_ago(seconds: float) -> None:
    Attempt.objects.update(claimed_at=timezone.now() - dt.timedelta(seconds=seconds))


@pytest.fixture
def agent() -> Agent:
    return Agent()


def test_a_heartbeat_renews_the_lease(agent: Agent) -> None:
    Node.objects.update(last_seen_at=timezone.now() - dt.timedelta(hours=1), state="lost")
    told = agent.beat(agent_version="3", facts={"chip": "a"})
    assert told == {"lease_s": 15, "heartbeat_s": 5, "cancel": [], "stored": {}, "discard": [], "drain": False}
    node = Node.objects.get()
    assert (node.state, node.agent_version, node.facts) == ("online", "3", {"chip": "a"})
    assert node.last_seen_at is not None and timezone.now() - node.last_seen_at < dt.timedelta(seconds=30)


def test_a_claim_gives_the_run_once(agent: Agent) -> None:
    experiment = submit(team())
    place_runs()
    attempt = live_attempt(experiment.runs.get())
    answer = agent.claim(attempt)
    assert answer.status_code == 200
    assert answer.json()["run_id"] == attempt.run_id
    assert answer.json()["model"]["name"] == "smollm2-135m-instruct"
    again = agent.claim(attempt)
    assert again.status_code == 409
    assert "is running, not assigned" in again.json()["detail"]


def test_another_nodes_run_can_not_be_claimed(agent: Agent) -> None:
    experiment = submit(team())
    place_runs()
    attempt = live_attempt(experiment.runs.get())
    assert Agent().claim(attempt).status_code == 409
    assert agent.claim(attempt).status_code == 200


@pytest.mark.parametrize("path", ["heartbeat", "claim"])
def test_only_a_nodes_own_token_opens_it(agent: Agent, path: str) -> None:
    person = create_token(User.objects.create_user("someone"), "token").plain
    for token in ("", "node_unknown", person):
        agent.token = token
        assert agent.post(path, {"run_id": 1, "attempt": 1}).status_code == 401
    assert Client().post(f"/api/v1/node/{path}", {}, content_type="application/json").status_code == 401


def test_a_retired_or_rotated_agent_is_told_why(agent: Agent) -> None:
    rotate(agent.node)
    answer = agent.post("heartbeat", {})
    assert answer.status_code == 401
    assert "rotated" in answer.json()["detail"]
    other = Agent()
    retire(other.node)
    assert "retired" in other.post("heartbeat", {}).json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"running": {"run_id": 1}},
        {"running": {"run_id": -1, "attempt": 1}},
        {"running": {"run_id": 2**63, "attempt": 1}},
        {"spools": ["../../etc/passwd"]},
        {"spools": ["1-1"] * 1001},
        {"facts": {"a": "x" * 70_000}},
        {"models": [{"name": "m", "sha256": "short"}]},
        {"unknown": True},
        [],
    ],
)
def test_a_bad_heartbeat_is_refused(agent: Agent, body: Any) -> None:
    Node.objects.update(last_seen_at=None)
    answer = agent.post("heartbeat", body)
    assert answer.status_code == 422
    assert answer.json()["errors"]
    assert Node.objects.get().last_seen_at is None


def test_a_cancel_is_told_until_the_node_says_that_nothing_is_left(agent: Agent) -> None:
    experiment, attempt = running(agent)
    cancel_run(experiment.owner, attempt.run)
    order = {**ref(attempt), "reason": f"cancelled by {experiment.owner.username}"}
    assert agent.beat(running=ref(attempt), spools=[name(attempt)])["cancel"] == [order]
    assert Run.objects.get().state == "running"
    assert agent.beat(ended=[ref(attempt)], spools=[name(attempt)])["cancel"] == []
    assert Run.objects.get().state == "cancelled"


def test_the_word_that_a_run_ended_waits_for_its_report(agent: Agent) -> None:
    _, attempt = running(agent)
    agent.beat(ended=[ref(attempt)], spools=[name(attempt)])
    assert Run.objects.get().state == "running"


def test_an_attempt_that_is_no_longer_current_is_to_be_ended(agent: Agent) -> None:
    _, attempt = running(agent, retries=0)
    lose_attempt(attempt.pk, "for this test")
    told = agent.beat(running=ref(attempt), spools=[name(attempt)])
    assert told["cancel"] == [{**ref(attempt), "reason": "this attempt is no longer current"}]
    assert told["discard"] == [name(attempt)]


def test_a_node_learns_how_far_its_events_are_stored(agent: Agent) -> None:
    _, attempt = running(agent)
    Attempt.objects.update(stored_seq=41)
    told = agent.beat(running=ref(attempt), spools=[name(attempt)])
    assert (told["stored"], told["discard"]) == ({name(attempt): 41}, [])


def test_a_spool_is_discarded_when_all_of_it_is_stored_or_nobody_wants_it(agent: Agent) -> None:
    _, attempt = running(agent)
    store_report(attempt)
    told = agent.beat(spools=[name(attempt), "999999-1"])
    assert told["discard"] == [name(attempt), "999999-1"]
    assert told["stored"] == {name(attempt): 1}


def test_the_last_events_of_a_cancelled_run_are_wanted_for_a_while(agent: Agent) -> None:
    experiment, attempt = running(agent)
    cancel_run(experiment.owner, attempt.run)
    assert agent.beat(ended=[ref(attempt)], spools=[name(attempt)])["discard"] == []
    Attempt.objects.update(ended_at=timezone.now() - dt.timedelta(minutes=11))
    assert agent.beat(spools=[name(attempt)])["discard"] == [name(attempt)]


def test_another_nodes_spool_is_of_no_use(agent: Agent) -> None:
    _, attempt = running(agent)
    assert Agent().beat(spools=[name(attempt)])["discard"] == [name(attempt)]


def test_an_attempt_that_its_node_does_not_know_is_lost_after_a_while(agent: Agent) -> None:
    _, attempt = running(agent, retries=0)
    agent.beat()
    assert Run.objects.get().state == "running"
    claimed_s_ago(26)
    agent.beat(running=ref(attempt))
    agent.beat(spools=[name(attempt)])
    agent.beat(ended=[ref(attempt)])
    assert Run.objects.get().state == "running"
    agent.beat()
    attempt.refresh_from_db()
    assert (attempt.state, Run.objects.get().state) == ("lost", "failed")
    assert "no longer knows" in attempt.reason


def test_a_drained_node_is_told(agent: Agent) -> None:
    drain(agent.node)
    assert agent.beat()["drain"] is True
