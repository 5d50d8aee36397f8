"""POST /api/v1/node/join."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from hardware.models import Node
from hardware.services import authenticate_node, issue_join_token, register_node
from runners.protocol import HEADER, NODE_PROTOCOL

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]
URL = "/api/v1/node/join"


def post(client: Client, body: Any) -> Any:
    return client.post(URL, body, content_type="application/json", headers={HEADER: str(NODE_PROTOCOL)})


def test_a_join_token_gives_credentials(client: Client) -> None:
    node = register_node("alpha", kind="measured")
    answer = post(client, {"token": issue_join_token(node), "facts": {"chip": "a"}, "agent_version": "1"})
    assert answer.status_code == 200
    assert authenticate_node(answer.json()["api_token"]) == node
    assert answer.json()["kind"] == "measured" and answer.json()["chip"] is None
    assert answer["Cache-Control"] == "no-store"


def test_a_used_token_is_refused_with_the_way_out(client: Client) -> None:
    token = issue_join_token(register_node("alpha", kind="measured"))
    assert post(client, {"token": token}).status_code == 200
    answer = post(client, {"token": token})
    assert answer.status_code == 403
    assert "used or expired" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"token": 7},
        {"token": "x" * 201},
        {"token": "x", "facts": []},
        {"token": "x", "facts": {"a": "x" * 70_000}},
        {"token": "x", "facts": {"a": "\0"}},
        {"token": "x", "agent_version": "\n"},
        {"token": "x", "unknown": 1},
    ],
)
def test_a_bad_body_is_refused_and_uses_nothing_up(client: Client, body: dict[str, Any]) -> None:
    token = issue_join_token(register_node("alpha", kind="measured"))
    if body.get("token") == "x":
        body = body | {"token": token}
    answer = post(client, body)
    assert answer.status_code == 422
    assert answer.json()["errors"]
    assert post(client, {"token": token}).status_code == 200


def test_other_methods_are_refused(client: Client) -> None:
    assert client.get(URL).status_code == 405


def test_when_the_broker_is_down_it_says_so(client: Client, settings: Settings) -> None:
    token = issue_join_token(register_node("alpha", kind="measured"))
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = post(client, {"token": token})
    assert answer.status_code == 503
    assert "broker" in answer.json()["detail"]
    assert Node.objects.get().api_digest == ""
