"""Runs on engines that are not the built-in one: a command that the node starts, and an endpoint that is there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from execution_runs import TAG, Run, spec

from runners.events import Log, Report, RequestRecord, Sample, Step
from runners.processes import ATTEMPT_MARK, marked_environment, marked_processes

MODEL = "smollm2-135m-instruct"
OWN = [
    sys.executable, "-m", "runners.runtime.server", "--model", "{model}",
    "--port", "{port}", "--max-num-seqs", "{max_num_seqs}", "--threads", "{threads}",
]  # fmt: skip
LLAMA = [
    sys.executable, "-m", "runners.engines.llamacpp_server", "--model", "{model_path}", "--alias", "{model}",
    "--port", "{port}", "--parallel", "{max_num_seqs}", "--ctx-size", "{total_tokens}", "--threads", "{threads}",
]  # fmt: skip
KEY = "sk-a-key-of-the-node-alone"


def managed(command: list[str], **keys: Any) -> str:
    said = {"command": command} | keys
    return "[managed.other]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in said.items())


def external(url: str, **keys: Any) -> str:
    said = {"base_url": url, "model": MODEL, "serves": [MODEL]} | keys
    return "[external.other]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in said.items())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start_run(listed: str, kind: str, **changes: Any) -> Run:
        folder = tmp_path / str(len(runs))
        folder.mkdir()
        (folder / "engines.toml").write_text(listed)
        engine = {"kind": kind, "name": "other", "threads": 1, "max_num_seqs": 2}
        runs.append(Run(folder, spec(engine=engine, **changes), "--engines", str(folder / "engines.toml")))
        return runs[-1]

    yield start_run
    for run in runs:
        run.kill()


def left() -> list[psutil.Process]:
    return marked_processes(ATTEMPT_MARK, TAG)


def check_records(run: Run, report: Report) -> list[RequestRecord]:
    """What holds of a run on any engine that is not ours."""
    assert report.outcome == "succeeded", report.error
    records = run.of(RequestRecord)
    assert [record.phase for record in records].count("measured") == 6
    assert all(record.status == "ok" and record.output_tokens == 6 for record in records), records
    assert all(sum(record.token_counts) == 6 and record.input_tokens == 24 for record in records)
    assert run.of(Step) == [] and report.facts["steps_dropped"] is None
    samples = run.of(Sample)
    assert sum(sample.finished for sample in samples) == len(records)
    assert all(sample.steps == 0 for sample in samples)
    return records


def test_llama_cpp_serves_the_same_weights_under_the_same_load(start: Callable[..., Run], sample_model: Path) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp's server is in extra `test`")
    version = [*LLAMA[:3], "--version"]
    run = start(managed(LLAMA, dialect="llamacpp", version_command=version), "managed")
    report = run.report()
    records = check_records(run, report)
    assert all(record.queued_s is None and record.prefill_done_s is None for record in records)
    engine = report.facts["engine"]
    assert (engine["kind"], engine["name"], engine["prompts_as"]) == ("managed", "other", "ids")
    assert engine["version"].startswith("llama.cpp") and len(engine["command_sha256"]) == 64
    assert engine["settings"] == {"max_num_seqs": 2, "threads": 1}
    assert engine["metrics"]["of"] == "llamacpp" and "llamacpp:requests_processing" in engine["metrics"]["read"]
    assert engine["prefix_cache"].startswith("empty") and engine["server_age_s"] > 0
    told = [sample for sample in run.of(Sample) if sample.running_mean is not None]
    assert told and all(sample.kv_used_mean is None for sample in told)
    assert left() == []


def test_two_runs_after_each_other_leave_no_process(start: Callable[..., Run], sample_model: Path) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp's server is in extra `test`")
    for _ in range(2):
        run = start(managed(LLAMA, dialect="llamacpp"), "managed")
        check_records(run, run.report())
        assert left() == []


def test_a_managed_engine_that_dies_in_mid_run_ends_it(start: Callable[..., Run], sample_model: Path) -> None:
    workload = {**spec()["workload"], "duration_s": 600}
    del workload["num_requests"]
    run = start(managed(OWN, dialect="lab"), "managed", workload=workload)
    run.wait_until_measuring()
    (server,) = [one for one in left() if one.cmdline()[1:3] == OWN[1:3] and one.parent().pid == run.process.pid]
    server.kill()
    report = run.report()
    assert report.outcome == "failed" and report.retry
    assert "in mid-run the other was killed by SIGKILL" in (report.error or "")
    assert left() == []


@pytest.mark.parametrize(
    ("listed", "error", "retry"),
    [
        (managed(["/no/such/engine", "{port}"]), "other can't be started: the node has no command engine", False),
        (
            managed([sys.executable, "-c", "raise SystemExit('no such model')", "{port}"]),
            "at its start other ended with status 1: no such model",
            False,
        ),
        (
            managed([sys.executable, "-c", "import time; print('loading', flush=True); time.sleep(600)", "{port}"],
                    ready_within_s=2.0),
            "other was not ready after 2 s (/health: ClientConnectorError): loading",
            True,
        ),
        (external("http://127.0.0.1:9"), "this node offers no managed engine 'other'", True),
        ("[managed.other]\ncommand = 3", "the node's list of engines can't be used", False),
    ],
    ids=["missing", "dies", "never well", "of another kind", "bad list"],
)  # fmt: skip
def test_a_managed_engine_that_does_not_come_up_fails_the_run(
    start: Callable[..., Run], sample_model: Path, listed: str, error: str, retry: bool
) -> None:
    report = start(listed, "managed").report()
    assert report.outcome == "failed" and report.retry is retry
    assert error in (report.error or "")
    assert left() == []


class Server:
    """Our own server as an endpoint that somebody else started."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "runners.runtime.server", "--model", MODEL]
        command += ["--port", "0", "--threads", "1", "--max-num-seqs", "2"]
        environment = marked_environment() | {"LAB_ATTEMPT": "another"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if said.get("event") == "ready":
                self.url = f"http://127.0.0.1:{said['port']}"
                return
        raise AssertionError("the server did not start")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@pytest.fixture(scope="module")
def endpoint(sample_model: Path) -> Iterator[str]:
    server = Server()
    yield server.url
    server.stop()


def test_an_external_endpoint_serves_the_same_load_and_stays(start: Callable[..., Run], endpoint: str) -> None:
    for listed, prompts_as in (
        (external(endpoint, dialect="lab"), "ids"),
        (external(endpoint, prompts="text"), "text"),
    ):
        run = start(listed, "external")
        report = run.report()
        assert report.outcome == "succeeded", report.error
        assert all(record.status == "ok" for record in run.of(RequestRecord))
        engine = report.facts["engine"]
        assert (engine["kind"], engine["prompts_as"]) == ("external", prompts_as)
        assert engine["metrics"]["of"] == "lab"
        assert left() == []
    assert endpoint not in json.dumps(report.model_dump(mode="json")), "addresses stay on the node"


class Told(BaseHTTPRequestHandler):
    """An endpoint that answers as `answer` says, and keeps the headers that it was sent."""

    answer: tuple[int, str, bytes] = (200, "text/event-stream", b"")
    keys: list[str | None] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        wants_stream = json.loads(self.rfile.read(length)).get("stream")
        self.keys.append(self.headers["Authorization"])
        status, kind, content = self.answer
        if status == 200 and not wants_stream:
            kind, content = "application/json", b'{"choices": [{"text": "a"}]}'
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""


@pytest.fixture
def told() -> Iterator[Callable[..., str]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Told)
    Told.keys = []
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def answer(*with_: Any) -> str:
        Told.answer = with_
        return f"http://127.0.0.1:{server.server_port}"

    yield answer
    server.shutdown()
    server.server_close()


def test_a_key_reaches_the_endpoint_and_nothing_else(
    start: Callable[..., Run], told: Callable[..., str], tmp_path: Path, sample_model: Path
) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    url = told(401, "application/json", json.dumps({"error": {"message": f"{KEY} is no key"}}).encode())
    run = start(external(url, api_key_file=str(tmp_path / "key")), "external")
    report = run.report()
    assert report.outcome == "failed" and not report.retry
    assert "HTTP 401: [key] is no key" in (report.error or "")
    assert set(Told.keys) == {f"Bearer {KEY}"}
    assert KEY not in run.spool.read_text() + run.log.read_text()


def test_an_endpoint_whose_key_is_missing_is_never_asked(
    start: Callable[..., Run], told: Callable[..., str], sample_model: Path
) -> None:
    url = told(200, "text/event-stream", b"")
    report = start(external(url, api_key_env="NO_SUCH_VARIABLE_OF_A_NODE"), "external").report()
    assert "NO_SUCH_VARIABLE_OF_A_NODE holds no key" in (report.error or "") and not report.retry
    assert Told.keys == []


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (b'data: {"choices": \n\n', "is not a completion chunk"),
        (b"\x00\xff\xfe garbage", "ended without [DONE]"),
        (b'data: {"choices": [{"text": "a"}]}\n\n', "ended without [DONE]"),
    ],
    ids=["half a chunk", "noise", "breaks off"],
)
def test_a_stream_of_garbage_is_told_of_each_request(
    start: Callable[..., Run], told: Callable[..., str], sample_model: Path, stream: bytes, words: str
) -> None:
    run = start(external(told(200, "text/event-stream", stream)), "external")
    report = run.report()
    assert report.outcome == "succeeded"
    records = run.of(RequestRecord)
    assert records and all(record.status == "error" and words in (record.error or "") for record in records)


def test_an_endpoint_that_is_not_there_fails_the_run_and_may_be_tried_again(
    start: Callable[..., Run], sample_model: Path
) -> None:
    run = start(external("http://127.0.0.1:9"), "external")
    report = run.report()
    assert report.outcome == "failed" and report.retry and "other can't be reached" in (report.error or "")
    assert any("can't be reached" in line.message for line in run.of(Log))


def test_a_slow_endpoint_ends_with_the_time_that_a_request_has(
    start: Callable[..., Run], sample_model: Path, endpoint: str
) -> None:
    server = next(one for one in psutil.process_iter() if _listens(one, int(endpoint.rpartition(":")[2])))
    run = start(external(endpoint, dialect="lab", metrics=""), "external", time_limit_s=3)
    deadline_s = time.monotonic() + 60
    while not run.of(RequestRecord):
        assert time.monotonic() < deadline_s and run.process.poll() is None
        time.sleep(0.02)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        report = run.report()
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert report.outcome == "succeeded"
    assert {record.status for record in run.of(RequestRecord)} == {"ok", "timeout"}


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        found = process.net_connections("tcp")
    except psutil.Error:
        return False
    return any(one.laddr.port == port and one.status == psutil.CONN_LISTEN for one in found)
