"""An agent of another version: refused before its body is read, named with both numbers, and shown on the pages."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from control_plane import live_attempt, ready_node, submit, team
from django.test import Client
from django.utils import timezone

from experiments.models import RunState
from experiments.services import place_runs, reap
from hardware.messages import JoinRequest
from hardware.models import Node
from hardware.services import issue_join_token, join, register_node
from labsite.accounts.models import User
from runners.protocol import FIRST, HEADER, NODE_PROTOCOL, STATUS

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]
OTHER = str(NODE_PROTOCOL + 1)


def post(path: str, body: Any, spoken: str | None = OTHER, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "inference-lab-node 9.9"}
    headers |= {HEADER: spoken} if spoken is not None else {}
    return Client().post(f"/api/v1/node/{path}", body, content_type="application/json", headers=headers)


def test_a_join_with_another_protocol_is_refused_with_both_numbers_and_uses_nothing_up() -> None:
    token = issue_join_token(register_node("alpha", kind="measured"))
    refused = post("join", {"token": token, "what this means": "is for that version to say"})
    assert refused.status_code == STATUS
    assert f"(inference-lab-node 9.9) speaks node protocol {OTHER}, this lab speaks {NODE_PROTOCOL}" in str(
        refused.json()["detail"]
    )
    assert post("join", {"token": token}, str(NODE_PROTOCOL)).status_code == 200


@pytest.mark.parametrize("spoken", [OTHER, "1.5", "", "\u00e9", "9" * 500], ids=["next", "half", "none", "odd", "long"])
def test_a_heartbeat_and_a_claim_are_refused_before_their_body_is_read(spoken: str) -> None:
    node = ready_node()
    token = join(JoinRequest(token=issue_join_token(node))).api_token
    for path in ("heartbeat", "claim"):
        answer = post(path, {"of": "another kind"}, spoken, token)
        assert answer.status_code == STATUS, answer.content
        assert set(answer.json()) == {"detail", "errors"}


def test_without_the_header_an_agent_is_one_of_the_first_protocol() -> None:
    token = join(JoinRequest(token=issue_join_token(ready_node()))).api_token
    refused = post("heartbeat", {}, None, token)
    assert refused.status_code == STATUS
    assert f"speaks node protocol {FIRST}, this lab speaks {NODE_PROTOCOL}" in refused.json()["detail"]


def test_the_node_and_the_run_say_why_and_the_right_version_clears_it() -> None:
    node = ready_node()
    token = join(JoinRequest(token=issue_join_token(node))).api_token
    experiment = submit(team(), retries=0, repeats=1)
    place_runs()
    attempt = live_attempt(experiment.runs.get(position=0))
    assert post("claim", {"run_id": attempt.run_id, "attempt": attempt.number}, OTHER, token).status_code == STATUS
    fault = Node.objects.get(pk=node.pk).fault
    assert f"speaks node protocol {OTHER}" in fault

    client = Client()
    client.force_login(User.objects.create_superuser("root", password=None))
    assert f"speaks node protocol {OTHER}" in client.get(f"/nodes/{node.slug}/").content.decode()
    assert client.get(f"/api/v1/nodes/{node.slug}").json()["fault"] == fault

    silent = timezone.now() - dt.timedelta(seconds=60)
    reap(silent)
    Node.objects.filter(pk=node.pk).update(last_seen_at=silent)
    for second in range(0, 70, 5):
        reap(silent + dt.timedelta(seconds=second))
    attempt.refresh_from_db()
    attempt.run.refresh_from_db()
    assert attempt.state == "lost" and fault in attempt.reason
    assert attempt.run.state == RunState.FAILED and fault in attempt.run.reason
    assert f"speaks node protocol {OTHER}" in client.get(f"/runs/{attempt.run_id}/").content.decode()

    assert post("heartbeat", {}, str(NODE_PROTOCOL), token).status_code == 200
    assert Node.objects.get(pk=node.pk).fault == ""


def test_a_fault_that_the_agent_tells_is_kept_until_it_tells_none() -> None:
    node = ready_node()
    token = join(JoinRequest(token=issue_join_token(node))).api_token
    assert post("heartbeat", {"fault": "its disk\n\0 is full"}, str(NODE_PROTOCOL), token).status_code == 200
    assert Node.objects.get(pk=node.pk).fault == "its disk is full"
    assert post("heartbeat", {"fault": "x" * 501}, str(NODE_PROTOCOL), token).status_code == 422
    assert post("heartbeat", {}, str(NODE_PROTOCOL), token).status_code == 200
    assert Node.objects.get(pk=node.pk).fault == ""
