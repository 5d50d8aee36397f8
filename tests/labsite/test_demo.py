"""What the demonstration says about a comparison, and the document it submits."""

from __future__ import annotations

import io
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from rich.console import Console

from labsite.demo.__main__ import DEMO
from labsite.demo.client import Api, ApiRefused
from labsite.demo.show import invalid_runs, show_comparison
from runners.document import parse_text, validate_document
from runners.matrix import plan_experiment

BASELINE, CHANGED = {"engine.weights": "bf16"}, {"engine.weights": "int8"}


def trial(settings: dict[str, Any], valid: bool, low: float | None = 90.0) -> dict[str, Any]:
    throughput = {"median": 100.0, "low": low, "high": None if low is None else 110.0, "n": 3}
    reasons = [] if valid else [{"code": "node_shared", "message": "others used 40 % of the CPU"}]
    return {
        "settings": settings,
        "runs": [{"id": 7, "valid": valid, "reasons": reasons, "output_tokens": 640}],
        "metrics": {"output_throughput": throughput},
    }


def difference(low: float | None, high: float | None, is_difference: bool) -> dict[str, Any]:
    return {
        "metric": "output_throughput", "settings": CHANGED, "relative": 0.25, "low": low, "high": high,
        "noise_floor": 0.1, "is_difference": is_difference,
    }  # fmt: skip


def shown(comparison: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=120)
    show_comparison(comparison, console)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_a_figure_is_shown_with_its_interval_and_without_one_where_there_is_none():
    text = shown({"trials": [trial(BASELINE, True), trial(CHANGED, True, low=None)], "differences": []})
    assert "100 [90.0, 110]" in text
    assert text.count("[") == 2  # that one, and the title's


def test_a_metric_that_was_not_measured_is_a_dash_never_zero():
    text = shown({"trials": [trial(BASELINE, True)], "differences": []})
    assert "–" in text


@pytest.mark.parametrize(("is_difference", "verdict"), [(True, "a difference"), (False, "within the noise")])
def test_a_difference_is_called_one_only_where_the_comparison_does(is_difference: bool, verdict: str):
    text = shown({"trials": [], "differences": [difference(5.0, 45.0, is_difference)]})
    assert "+25.0%" in text and "5.00 … 45.0" in text and verdict in text


def test_without_an_interval_the_verdict_is_that_there_is_none():
    text = shown({"trials": [], "differences": [difference(None, None, False)]})
    assert "too few valid runs to say" in text


def test_runs_that_are_not_valid_are_named_with_their_reasons():
    lines = invalid_runs({"trials": [trial(BASELINE, True), trial(CHANGED, False)]})
    assert lines == ["run 7 (weights int8): others used 40 % of the CPU"]


def test_the_shipped_document_is_twelve_runs_as_the_demonstration_promises():
    document = parse_text(DEMO.read_text())
    spec, plan = validate_document(document), plan_experiment(document)
    assert spec.matrix == {"engine.weights": ("bf16", "int8"), "engine.max_num_seqs": (1, 8)}
    assert spec.workload.kind == "text" and spec.workload.arrival.kind == "closed"
    assert spec.workload.arrival.max_concurrency == 8
    assert (spec.workload.num_requests or 0) >= 24
    assert len(plan.runs) == 12


class Refusing(BaseHTTPRequestHandler):
    """Answers with the API's error shape, or with a proxy's page."""

    def do_GET(self) -> None:
        api = self.path.endswith("/api")
        self.send_response(422 if api else 502)
        self.end_headers()
        body = b'{"detail": "not accepted", "errors": [{"field": "engine.weights", "message": "int5 is unknown"}]}'
        self.wfile.write(body if api else b"<h1>Bad gateway</h1>")

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print nothing of it."""


@pytest.fixture
def refusing() -> Iterator[Api]:
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    yield Api(f"http://127.0.0.1:{server.server_port}", "token")
    server.shutdown()
    server.server_close()


def test_a_refusal_shows_status_detail_and_each_field(refusing: Api):
    with pytest.raises(ApiRefused, match=r"422 not accepted; engine\.weights: int5 is unknown"):
        refusing.get("/api")


def test_an_answer_that_is_no_json_is_an_error_too(refusing: Api):
    with pytest.raises(ApiRefused, match="502 <h1>Bad gateway") as refusal:
        refusing.get("/page")
    assert refusal.value.status == 502
