"""Every address of the lab, asked by every kind of actor, answers as the table in access_rules says.

The addresses are taken from the URL conf, the API's operations and the sockets' routing: a new one without a rule
fails here. Whatever is done is taken back before the next is tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from access_rules import ACTORS, ROUTES, SOCKETS, Rule
from access_world import Actor, World, build_world
from django.conf import settings
from django.db import transaction
from django.urls import get_resolver
from web_process import WebProcess, web_process
from websockets.exceptions import ConnectionClosed

from experiments.routing import websocket_urlpatterns
from labsite.accounts.models import AuditEntry
from labsite.api import api

SAFE = ("GET", "HEAD", "OPTIONS")
pytestmark = pytest.mark.usefixtures("redis_url")


@pytest.fixture
def world(db: None) -> World:
    return build_world()


def routes(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern.url_patterns, prefix + str(pattern.pattern))
        else:
            # the names of the apps are those of the admin's models, which have rules of their own
            yield re.sub(r"(?<=<app_label>)[a-z|]+", "…", prefix + str(pattern.pattern))


def operations() -> set[tuple[str, str]]:
    """Every route and method of the API."""
    return {
        ("api/v1" + "/".join(filter(None, [prefix.rstrip("/"), ""])) + _as_route(path), method)
        for prefix, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }


def _as_route(path: str) -> str:
    return path.replace("{", "<").replace("}", ">")


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    assert set(routes(get_resolver().url_patterns)) == set(ROUTES)


def test_every_operation_of_the_api_has_a_rule() -> None:
    ruled = {(route, method) for route, rules in ROUTES.items() if route.startswith("api/") for method in rules}
    undocumented = {(f"api/v1/{path}", "GET") for path in ("", "docs", "openapi.json")}
    assert operations() == ruled - undocumented


@pytest.mark.parametrize("name", ACTORS)
def test_every_address_answers_as_the_table_says(world: World, name: str) -> None:
    actor, wrong = world.actors[name], []
    for route, rules in ROUTES.items():
        for method, rule in rules.items():
            found = outcome(world, actor, route, method, rule)
            if found != rule.who[name]:
                wrong.append(f"{method} {route}: {found}, but the table says {rule.who[name]}")
    assert not wrong, "\n".join(["", *wrong])


def test_no_session_changes_anything_without_its_csrf_token(world: World) -> None:
    actor, let_in = world.actors["root"], []
    for route, rules in ROUTES.items():
        for method, rule in rules.items():
            if method in SAFE or route.startswith("api/v1/node/"):
                continue
            with taken_back():
                response = send(world, actor, route, method, rule, csrf=True)
                if response.status_code != 403:
                    let_in.append(f"{method} {route}: {response.status_code}")
    assert not let_in, let_in


def outcome(world: World, actor: Actor, route: str, method: str, rule: Rule) -> str:
    with taken_back():
        last = AuditEntry.objects.latest("id").pk
        response = send(world, actor, route, method, rule)
        on_record = AuditEntry.objects.filter(pk__gt=last).exists()
        if on_record and not (rule.changes or rule.sign_out):
            return "on record, though it should change nothing"
        found = judge(response)
        if rule.changes and found == "ok" and not on_record:
            # A page tells of a refusal where the person came from.
            return "no" if response.status_code == 302 or not route.startswith("api/") else "not on record"
        return found


def judge(response: Any) -> str:
    status = response.status_code
    if status == 302 and any(place in response["Location"] for place in (settings.LOGIN_URL, "/admin/login/")):
        return "ok" if response.wsgi_request.path.endswith("logout/") else "in"
    if status == 302 and response["Location"] == "/admin/" and not response.wsgi_request.path.endswith("/login/"):
        return "gone"
    if status == 400 and "no project" in response.content.decode():
        return "gone"
    return {401: "in", 403: "no", 404: "gone", 409: "refused"}.get(status) or ("ok" if status < 400 else str(status))


def send(world: World, actor: Actor, route: str, method: str, rule: Rule, *, csrf: bool = False) -> Any:
    path = world.path_of(route, rule.query)
    client = actor.client(path, csrf=csrf)
    if path.startswith("/api/"):
        body = json.dumps(rule.body) if rule.body is not None else "{}" if method != "GET" else ""
        return client.generic(method, path, body, content_type="application/json")
    if method == "GET":
        return client.get(path)
    return client.post(path, {key: value.format(**world.values) for key, value in (rule.body or {}).items()})


class taken_back:
    """What happens inside is rolled back."""

    def __enter__(self) -> None:
        self._atomic = transaction.atomic()
        self._atomic.__enter__()

    def __exit__(self, *error: Any) -> None:
        transaction.set_rollback(True)
        self._atomic.__exit__(*error)


# Sockets


def test_every_socket_has_a_rule_and_every_rule_a_socket() -> None:
    assert {str(pattern.pattern) for pattern in websocket_urlpatterns} == set(SOCKETS)


@pytest.mark.django_db(transaction=True)
def test_every_socket_answers_as_the_table_says(process_env: dict[str, str], tmp_path: Path) -> None:
    world = build_world()
    with web_process(process_env, tmp_path / "web.log") as web:
        found = {
            route: " ".join(first_word(web, socket_path(world, route), world.actors[name].token) for name in ACTORS)
            for route in SOCKETS
        }
    assert found == SOCKETS


def socket_path(world: World, route: str) -> str:
    subject = world.values["run_id" if "runs" in route else "experiment_id"]
    return "/" + route.strip("^$").replace("(?P<id>[0-9]{1,18})", str(subject)) if route else "/ws/nothing"


def first_word(web: WebProcess, path: str, token: str | None) -> str:
    """`open` for a socket that tells something, or the code that it closes with."""
    with web.socket(path, token=token, origin=f"http://{web.host}") as socket:
        try:
            socket.recv(timeout=20)
        except ConnectionClosed as closed:
            return str(closed.rcvd.code if closed.rcvd else None)
        return "open"
