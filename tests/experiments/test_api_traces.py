"""/api/v1/traces: registering files of recorded traffic, reading, removing; and experiments that replay them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from api_client import Caller, member, refused
from control_plane import document, person, ready_node, team
from django.conf import settings
from django.test import Client

from experiments.models import Attempt, Experiment, Run, Trace
from experiments.services import claim, place_runs
from experiments.services import traces as trace_service
from hardware.messages import JoinRequest
from hardware.services import issue_join_token, join
from labsite.accounts.models import AuditEntry, Project, Role
from runners.protocol import HEADER, NODE_PROTOCOL

pytestmark = pytest.mark.django_db

OCTETS = "application/octet-stream"
ROWS = [
    {"timestamp_s": 0.0, "input_tokens": 40, "output_tokens": 4, "prefix_ids": [1]},
    {"timestamp_s": 0.5, "input_tokens": 30, "output_tokens": 2, "prefix_ids": [1]},
    {"timestamp_s": 2.5, "input_tokens": 3000, "output_tokens": 8, "session": "a", "class": "chat"},
]


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def add(caller: Caller, name: str = "small", body: bytes = jsonl(ROWS), query: str = "", kind: str = OCTETS) -> Any:
    return caller.post(f"/traces?name={name}{query}", body, kind)


def files() -> list[str]:
    return sorted(path.name for path in Path(settings.LAB_TRACES).glob("*"))


@pytest.fixture(autouse=True)
def a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LAB_TRACES", tmp_path / "traces")


@pytest.fixture
def project() -> Project:
    return team()


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project)


def replay(**trace: Any) -> dict[str, Any]:
    workload = {
        "kind": "trace", "trace": {"name": "small", **trace}, "arrival": {"kind": "recorded"},
        "warmup": {"num_requests": 0},
    }  # fmt: skip
    return document() | {"workload": workload}


def test_a_trace_is_read_back_with_its_figures(caller: Caller) -> None:
    answer = add(caller)
    assert answer.status_code == 201, answer.content
    trace = caller.get(f"/traces/{answer.json()['id']}").json()
    assert trace == answer.json()
    assert (trace["format"], trace["rows"], trace["duration_s"], trace["experiments"]) == ("custom", 3, 2.5, 0)
    assert trace["sharing_rate"] == 0.5 and trace["summary"]["classes"] == {"chat": 1}
    assert trace["summary"]["input_tokens"]["p50"] == 40
    assert caller.get(f"/traces/{trace['id']}/preview").json()["rows"] == ROWS
    kept = b"".join(caller.get(f"/traces/{trace['id']}/file").streaming_content)
    assert [json.loads(line) for line in kept.splitlines()] == ROWS
    assert files() == [f"{trace['sha256']}.jsonl"]
    assert [item["name"] for item in caller.get("/traces?search=mal").json()["items"]] == ["small"]
    assert caller.get("/traces?format=azure").json()["items"] == []


def test_the_same_rows_again_are_the_same_trace_and_others_need_another_name(caller: Caller) -> None:
    first = add(caller).json()
    again = add(caller)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert "another name" in refused(add(caller, body=jsonl(ROWS[:1])), 409)["detail"]
    assert add(caller, "copy").json()["sha256"] == first["sha256"]
    assert len(files()) == 1
    assert AuditEntry.objects.filter(action="trace.add").count() == 2


def test_wrong_lines_are_named_and_nothing_is_kept(caller: Caller) -> None:
    body = jsonl(ROWS) + b'{"input_tokens": 0, "output_tokens": 1}\nnonsense\n'
    answer = refused(add(caller, body=body), 422)
    assert [fault["field"] for fault in answer["errors"]] == ["line 4", "line 5"]
    assert "input_tokens: 0; allowed" in answer["errors"][0]["message"]
    assert files() == [] and not Trace.objects.exists()
    taken = add(caller, body=body, query="&skip_bad_lines=true").json()
    assert (taken["rows"], taken["skipped"], taken["bad_lines"][1]["line"]) == (3, 2, 5)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("name=../../etc/passwd", "name"),
        ("name=UPPER", "name"),
        ("name=a%00b", "name"),
        ("", "name"),
        ("name=x&format=zip", "format"),
        ("name=x&block_tokens=0", "block_tokens"),
    ],
)
def test_a_wrong_parameter_is_named(caller: Caller, query: str, field: str) -> None:
    answer = refused(caller.post(f"/traces?{query}", jsonl(ROWS), OCTETS), 422)
    assert [fault["field"] for fault in answer["errors"]] == [field]
    assert files() == []


def test_what_is_no_trace_is_refused(caller: Caller) -> None:
    assert refused(add(caller, body=b"PK\x03\x04\0\0"), 422)["errors"][0]["field"] == "format"
    assert "no request in it" in refused(add(caller, body=b"\n", query="&format=custom"), 422)["errors"][0]["message"]
    assert "NUL" in refused(add(caller, body=b"\0\n", query="&format=custom"), 422)["errors"][0]["message"]
    refused(add(caller, kind="multipart/form-data; boundary=x"), 415)
    assert files() == []


def test_a_file_that_is_too_large_is_refused(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.api.traces.MAX_UPLOAD_BYTES", 100)
    refused(add(caller), 413)
    assert files() == []


def test_a_trace_of_another_project_is_not_there(caller: Caller) -> None:
    trace = add(caller).json()
    stranger = member(Project.objects.create(name="Elsewhere", slug="elsewhere"))
    for path in ("", "/preview", "/file"):
        refused(stranger.get(f"/traces/{trace['id']}{path}"), 404)
    refused(stranger.delete(f"/traces/{trace['id']}"), 404)
    assert stranger.get("/traces").json()["items"] == []
    ready_node()
    answer = refused(stranger.post("/experiments", replay()), 422)
    assert (answer["errors"][0]["field"], answer["errors"][0]["allowed"]) == ("workload.trace.name", [])


@pytest.mark.django_db(transaction=True)
def test_only_who_registered_it_or_an_operator_removes_it(project: Project, caller: Caller) -> None:
    trace = add(caller).json()
    refused(member(project).delete(f"/traces/{trace['id']}"), 403)
    assert Caller(person(project, Role.OPERATOR)).delete(f"/traces/{trace['id']}").status_code == 204
    assert files() == []
    assert AuditEntry.objects.filter(action="trace.remove", object_name="small").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_file_stays_while_another_trace_has_it(caller: Caller) -> None:
    first, second = add(caller).json(), add(caller, "copy").json()
    assert caller.delete(f"/traces/{first['id']}").status_code == 204
    assert files() == [f"{second['sha256']}.jsonl"]


# Experiments


def test_runs_are_frozen_with_the_trace_and_hold_it(caller: Caller) -> None:
    ready_node()
    trace = add(caller).json()
    answer = caller.post("/experiments", replay(seconds=2))
    assert answer.status_code == 201, answer.content
    found = Run.objects.first().spec["trace"]
    assert (found["name"], found["sha256"]) == ("small", trace["sha256"])
    assert (found["extent"]["requests"], found["extent"]["lasts_s"], found["extent"]["longest"]) == (2, 0.5, 44)
    assert "named by 1 experiment" in refused(caller.delete(f"/traces/{trace['id']}"), 409)["detail"]
    Experiment.objects.all().delete()
    assert caller.delete(f"/traces/{trace['id']}").status_code == 204


def test_a_placed_run_asks_for_no_more_memory_than_the_model_takes(caller: Caller) -> None:
    ready_node()
    add(caller)
    assert caller.post("/experiments", replay()).status_code == 201
    place_runs()
    assert Run.objects.filter(state="assigned").count() == 1


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"trace": {"name": "other"}}, "workload.trace.name", "no trace 'other'"),
        ({"trace": {"name": "small", "start_s": 60}}, "workload.trace", "nothing is left"),
        ({"trace": {"name": "small", "time_scale": 1e6}}, "workload.trace.time_scale", "at most a week"),
        ({"num_requests": 5}, "workload.num_requests", "the trace itself says this"),
        ({"arrival": {"kind": "open", "request_rate": 1e-9}}, "workload.arrival.request_rate", "over more than a week"),
    ],
)
def test_what_the_trace_does_not_have_is_refused_by_its_field(
    caller: Caller, changes: dict[str, Any], field: str, words: str
) -> None:
    ready_node()
    add(caller)
    asked = replay()
    asked["workload"] |= changes
    (fault,) = refused(caller.post("/experiments", asked), 422)["errors"]
    assert fault["field"] == field and words in fault["message"] and fault["allowed"] is not None


def test_a_trace_without_times_is_not_replayed_at_recorded_ones(caller: Caller) -> None:
    ready_node()
    add(caller, body=b'{"input_tokens": 9, "output_tokens": 2}\n' * 3)
    (fault,) = refused(caller.post("/experiments", replay()), 422)["errors"]
    assert (fault["field"], fault["allowed"]) == ("workload.arrival.kind", ["closed", "open"])
    asked = replay()
    asked["workload"]["arrival"] = {"kind": "closed", "max_concurrency": 2}
    assert caller.post("/experiments", asked).status_code == 201


def test_a_long_prompt_without_chunked_prefill_is_refused(caller: Caller) -> None:
    ready_node()
    add(caller)
    asked = replay() | {"engine": {"scheduler": {"chunked_prefill": False}, "max_num_batched_tokens": 2048}}
    (fault,) = refused(caller.post("/experiments", asked), 422)["errors"]
    assert (fault["field"], fault["allowed"]) == ("engine.max_num_batched_tokens", "at least 3000")


@pytest.mark.django_db(transaction=True)
def test_adding_and_removing_the_same_rows_at_once_loses_no_file(caller: Caller, project: Project) -> None:
    trace = Trace.objects.get(pk=add(caller).json()["id"])
    errors: list[BaseException] = []

    def forget() -> None:
        try:
            for _ in range(20):
                trace_service.forget_file(trace.sha256)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=forget)
    thread.start()
    for number in range(5):
        added = add(caller, f"copy-{number}").json()
        assert caller.delete(f"/traces/{added['id']}").status_code == 204
    thread.join()
    assert not errors
    assert files() == [f"{trace.sha256}.jsonl"]


# Nodes


def test_a_node_gets_the_file_of_a_run_that_it_has_under_way_and_of_no_other(caller: Caller) -> None:
    node = ready_node()
    token = join(JoinRequest(token=issue_join_token(node))).api_token
    sha256 = add(caller).json()["sha256"]

    def ask() -> Any:
        headers = {"Authorization": f"Bearer {token}", HEADER: str(NODE_PROTOCOL)}
        return Client().get(f"/api/v1/node/traces/{sha256}", headers=headers)

    assert caller.post("/experiments", replay()).status_code == 201
    place_runs()
    assert ask().status_code == 404
    attempt = Attempt.objects.get(node=node)
    assert claim(node, attempt.run_id, attempt.number).trace is not None
    assert [json.loads(line) for line in b"".join(ask().streaming_content).splitlines()] == ROWS
