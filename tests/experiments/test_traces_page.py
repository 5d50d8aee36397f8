"""The pages of traces: what there is, what one is like, registering by a form, removing."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from control_plane import document, ready_node, submit
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from experiments.models import Attempt, Run, Trace
from experiments.services import place_runs
from experiments.services.traces import add_trace
from labsite.accounts.models import Project, User

pytestmark = pytest.mark.django_db

ROWS = [{"timestamp_s": t / 2, "input_tokens": 100 + t, "output_tokens": 3, "prefix_ids": [1]} for t in range(20)]
FILE = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.fixture
def trace(project: Project, researcher: User) -> Trace:
    return add_trace(researcher, project, "evening", io.BytesIO(FILE))[0]


def send(browser: Client, content: bytes, **fields: Any) -> str:
    file = SimpleUploadedFile("../../evil.jsonl", content)
    response = browser.post("/traces/add", {"name": "sent", "project": "lab", "file": file, **fields}, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def test_an_empty_list_says_how_to_register_one(browser: Client) -> None:
    page = browser.get("/traces/").content.decode()
    assert "No trace is registered yet" in page and "inference-lab traces add" in page


def test_a_trace_is_listed_and_shown_with_its_figures(browser: Client, trace: Trace) -> None:
    assert "evening" in browser.get("/traces/").content.decode()
    assert "evening" not in browser.get("/traces/?format=azure").content.decode()
    page = browser.get(f"/traces/{trace.pk}/").content.decode()
    for part in ("How to replay it", "kind: recorded", "95.0\u00a0%", 'id="lengths"', 'id="arrivals"', trace.sha256):
        assert part in page, part
    assert "Remove" in page


def test_a_trace_without_times_offers_a_closed_load(browser: Client, project: Project, researcher: User) -> None:
    trace, _ = add_trace(researcher, project, "timeless", io.BytesIO(b'{"input_tokens": 9, "output_tokens": 2}'))
    page = browser.get(f"/traces/{trace.pk}/").content.decode()
    assert "kind: closed" in page and "no times" in page and 'id="arrivals"' not in page


def test_a_file_is_registered_by_the_form(browser: Client, project: Project) -> None:
    page = send(browser, FILE, project=project.slug)
    assert "sent is registered: 20 requests" in page and "evil" not in page


@pytest.mark.parametrize(
    ("content", "fields", "words"),
    [
        (b"nonsense", {}, "the format can"),
        (FILE + b"{}\n", {}, "line 21: input_tokens is missing"),
        (b"", {}, "the format can"),
        (FILE, {"name": "No Name"}, "name:"),
        (FILE, {"format": "zip"}, "format:"),
    ],
)
def test_what_is_wrong_with_it_is_told_on_the_list(
    browser: Client, project: Project, content: bytes, fields: dict[str, Any], words: str
) -> None:
    assert words in send(browser, content, **{"project": project.slug, **fields})
    assert not Trace.objects.exists()


def test_one_that_an_experiment_replays_is_not_offered_for_removal(
    browser: Client, project: Project, researcher: User, trace: Trace
) -> None:
    ready_node()
    workload = {"kind": "trace", "trace": {"name": "evening"}, "arrival": {"kind": "recorded"}}
    submit(project, researcher, **(document() | {"workload": workload, "name": "Replay"}))
    page = browser.get(f"/traces/{trace.pk}/").content.decode()
    assert "Replay" in page and "Remove" not in page
    assert "stays for as long" in browser.post(f"/traces/{trace.pk}/remove", follow=True).content.decode()
    assert Trace.objects.filter(pk=trace.pk).exists()


def test_an_unused_one_is_removed(browser: Client, trace: Trace) -> None:
    assert "evening is removed" in browser.post(f"/traces/{trace.pk}/remove", follow=True).content.decode()
    assert browser.get(f"/traces/{trace.pk}/").status_code == 404


def test_a_run_page_says_how_many_requests_were_clipped(
    browser: Client, project: Project, researcher: User, redis_url: str
) -> None:
    ready_node()
    run = submit(project, researcher).runs.first()
    place_runs()
    told = {
        "requests": 20, "clipped_requests": 3, "clipped_prompts": 2, "clipped_outputs": 1, "lost_input_tokens": 900,
        "lost_output_tokens": 7,
    }  # fmt: skip
    Attempt.objects.filter(run=run).update(report={"facts": {}, "client": {"trace": told}})
    Run.objects.filter(pk=run.pk).update(summary={"metrics": {}, "valid": True, "reasons": [], "thresholds": {}})
    page = browser.get(f"/runs/{run.pk}/results").content.decode()
    assert "3 of 20 requests of the trace were longer than the model takes" in page
