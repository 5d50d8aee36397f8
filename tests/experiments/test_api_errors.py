"""One shape of error, whoever gives the answer; the published schema; and pages that need no other site."""

from __future__ import annotations

import re

import pytest
from api_client import Caller, member, refused
from control_plane import person
from django.contrib.staticfiles import finders
from django.test import Client, override_settings

from experiments import selectors
from labsite.accounts.models import Project
from runners.protocol import HEADER, NODE_PROTOCOL

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project)


@pytest.mark.parametrize("path", ["/nothing", "/experiments/1/nothing", "/", "/experiments/"])
def test_an_unknown_address_is_a_404_in_the_one_shape(caller: Caller, path: str) -> None:
    refused(caller.get(path), 404)


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/experiments"), ("PUT", "/nodes"), ("POST", "/chips")])
def test_a_wrong_method_is_a_405_that_names_the_right_ones(caller: Caller, method: str, path: str) -> None:
    answer = caller.call(method, path)
    refused(answer, 405)
    assert "GET" in answer["Allow"]


def test_a_crash_is_a_500_that_tells_nothing_of_its_inside(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(selectors, "readable_experiments", crash)
    answer = caller.get("/experiments")
    refused(answer, 500)
    assert b"secret" not in answer.content
    assert "secret inside" in caplog.text


@override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=1000)
def test_a_body_past_the_servers_own_limit_is_a_413(caller: Caller) -> None:
    refused(caller.post("/node/join", {"token": "x" * 2000}, **{HEADER: str(NODE_PROTOCOL)}), 413)


def test_more_parameters_than_the_server_reads_are_a_400(caller: Caller) -> None:
    refused(caller.get("/experiments?" + "a=1&" * 2000), 400)


def test_a_wrong_host_is_a_400_in_the_one_shape(caller: Caller) -> None:
    refused(caller.get("/experiments", Host="evil.example"), 400)


# Schema and pages about it


def test_the_published_schema_holds_every_endpoint_and_the_document() -> None:
    schema = Client().get("/api/v1/openapi.json").json()
    assert {
        "/api/v1/experiments",
        "/api/v1/experiments/validate",
        "/api/v1/experiments/{experiment_id}",
        "/api/v1/experiments/{experiment_id}/cancel",
        "/api/v1/runs/{run_id}",
        "/api/v1/runs/{run_id}/requests",
        "/api/v1/runs/{run_id}/series",
        "/api/v1/runs/{run_id}/steps",
        "/api/v1/runs/{run_id}/log",
        "/api/v1/runs/{run_id}/cancel",
        "/api/v1/compare",
        "/api/v1/nodes",
        "/api/v1/chips",
        "/api/v1/models",
    } <= set(schema["paths"])
    assert schema["components"]["schemas"]["ExperimentSpec"]["properties"]["engine"]
    body = schema["paths"]["/api/v1/experiments"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "application/yaml"}


def test_every_reference_in_the_schema_leads_somewhere() -> None:
    answer = Client().get("/api/v1/openapi.json")
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.content.decode()))
    assert names
    assert names <= set(answer.json()["components"]["schemas"])


def test_every_endpoint_is_described_and_tells_its_errors() -> None:
    schema = Client().get("/api/v1/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            if "/node/" not in path:
                assert {"401", "422"} <= set(operation["responses"]), (method, path)


def test_the_interactive_docs_load_nothing_from_elsewhere() -> None:
    page = Client().get("/api/v1/docs")
    assert page.status_code == 200
    text = page.content.decode()
    assets = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert assets
    assert all(asset.startswith("/static/") for asset in assets)
    assert all(finders.find(asset.removeprefix("/static/")) for asset in assets)
    assert not re.findall(r"<script(?![^>]*(?:src=|application/json))", text)
    assert "default-src 'self'" in page["Content-Security-Policy"]


def test_the_interactive_docs_can_try_a_write_with_the_session(project: Project) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person(project))
    text = client.get("/api/v1/docs").content.decode()
    assert 'data-api-csrf="true"' in text
    (token,) = re.findall(r'data-csrf-token="([^"]+)"', text)
    path, kind = "/api/v1/experiments/validate", "application/json"
    assert client.post(path, "{}", content_type=kind).status_code == 403
    assert client.post(path, "{}", content_type=kind, headers={"X-CSRFToken": token}).status_code == 200
