"""The worker's desk: whatever becomes of a claim, the attempt is either run, left alone, or reported by the agent."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_lab import ScriptedLab

from runners import models
from runners.agent import worker_process
from runners.agent.control import ControlPlane
from runners.agent.home import NodeHome
from runners.agent.worker_process import AgentLink, Desk
from runners.spool import AttemptKey

KEY = AttemptKey(5, 2)
NOT_OURS = (409, {"detail": "run 5 attempt 2 is lost, not assigned", "errors": []})


def run_spec() -> dict[str, Any]:
    model = models.get("smollm2-135m-instruct")
    workload = {"kind": "text", "arrival": {"kind": "closed", "max_concurrency": 1}, "num_requests": 1}
    return {
        "run_id": 5, "experiment_id": 1, "trial_index": 0, "repeat": 0, "seed": 1, "settings": {},
        "model": {"name": model.name, "sha256": model.sha256, "shape": dict(model.shape)}, "chip_id": "any",
        "engine": {}, "placement": {}, "workload": workload, "slo": {}, "cost": {}, "time_limit_s": 60,
        "code_revision": "test",
    }  # fmt: skip


class AgentEnd:
    """The agent's end of the socket pair: notes what is handed over, and says at once that it has ended."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        self.handed: list[dict[str, Any]] = []
        self._socket = ours
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        for line in self._socket.makefile("r"):
            self.handed.append(json.loads(line))
            answer = {"run_id": self.handed[-1]["run_id"], "attempt": self.handed[-1]["attempt"], "ended": True}
            self._socket.sendall((json.dumps(answer) + "\n").encode())


@pytest.fixture
def lab() -> Iterator[ScriptedLab]:
    lab = ScriptedLab()
    yield lab
    lab.close()


@pytest.fixture
def home(tmp_path: Path) -> NodeHome:
    return NodeHome(tmp_path)


@pytest.fixture
def agent() -> AgentEnd:
    return AgentEnd()


@pytest.fixture
def desk(lab: ScriptedLab, home: NodeHome, agent: AgentEnd, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(worker_process, "CLAIM_AGAIN_S", 0.01)
    monkeypatch.setattr(worker_process, "CLAIM_FOR_S", 0.3)
    return Desk(home, ControlPlane(lab.url, "token", timeout_s=5), AgentLink(agent.theirs))


def test_a_claimed_run_is_handed_over_with_its_spec(
    desk: Desk, lab: ScriptedLab, home: NodeHome, agent: AgentEnd
) -> None:
    lab.answers = [(200, run_spec())]
    assert desk.take(KEY) == "has ended"
    assert lab.requests == [{"run_id": 5, "attempt": 2}]
    assert agent.handed[0]["spec"]["time_limit_s"] == 60
    assert home.spooled() == [KEY]


def test_a_refused_claim_leaves_nothing(desk: Desk, lab: ScriptedLab, home: NodeHome, agent: AgentEnd) -> None:
    lab.answers = [NOT_OURS]
    assert "is lost, not assigned" in desk.take(KEY)
    assert home.spooled() == [] and agent.handed == []


def test_an_attempt_that_has_a_spool_is_not_claimed_again(
    desk: Desk, lab: ScriptedLab, home: NodeHome, agent: AgentEnd
) -> None:
    home.spool(KEY).touch()
    assert "is here already" in desk.take(KEY)
    assert lab.requests == [] and agent.handed == []


def test_a_claim_is_tried_again_while_the_lab_does_not_answer(desk: Desk, lab: ScriptedLab, agent: AgentEnd) -> None:
    lab.answers = [None, (503, b"starting"), (200, run_spec())]
    assert desk.take(KEY) == "has ended"
    assert len(lab.requests) == 3 and "spec" in agent.handed[0]


@pytest.mark.parametrize("answers", [[None, NOT_OURS], [None]])
def test_a_claim_whose_answer_was_lost_is_reported_for_another_try(
    desk: Desk, lab: ScriptedLab, home: NodeHome, agent: AgentEnd, answers: list[Any]
) -> None:
    """The lab may count the attempt as claimed: somebody has to say that it does not run."""
    lab.answers = answers
    assert "could not be claimed" in desk.take(KEY)
    assert agent.handed[0]["retry"] is True and "was not answered" in agent.handed[0]["error"]
    assert home.spooled() == [KEY]


def test_a_spec_that_this_agent_cannot_read_is_no_reason_to_try_again(
    desk: Desk, lab: ScriptedLab, agent: AgentEnd
) -> None:
    lab.answers = [(200, run_spec() | {"from_the_future": 1})]
    assert "could not be claimed" in desk.take(KEY)
    assert agent.handed[0]["retry"] is False and "from_the_future" in agent.handed[0]["error"]
