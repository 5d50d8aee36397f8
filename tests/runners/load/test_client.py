"""The load client as a process, against the real server with the sample model."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runners import models
from runners.events import RequestRecord, Sample
from runners.load.client import ClientConfig, make_prompts
from runners.load.plan import RequestPlan

MODEL = "smollm2-135m-instruct"
DEADLINE_S = 120.0
SHORT: dict[str, Any] = {
    "kind": "text",
    "arrival": {"kind": "closed", "max_concurrency": 3},
    "input_len": {"dist": "uniform", "min_tokens": 8, "max_tokens": 24},
    "output_len": {"dist": "uniform", "min_tokens": 4, "max_tokens": 10},
    "num_requests": 7,
    "warmup": {"num_requests": 2},
}
ENDLESS = {**SHORT, "num_requests": 500, "output_len": {"dist": "fixed", "tokens": 1000}, "warmup": {"num_requests": 0}}

Lines = list[dict[str, Any]]


class Server:
    """`python -m runners.runtime.server` with the sample model, on a free port."""

    def __init__(self, model_path: Path) -> None:
        command = [sys.executable, "-m", "runners.runtime.server", "--model", str(model_path), "--port", "0"]
        options = ["--weights", "int8", "--threads", "1", "--num-blocks", "256", "--drain-s", "0"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        self.url, self.model = f"http://127.0.0.1:{ready['port']}", ready["model"]

    def steps(self) -> Lines:
        with urllib.request.urlopen(f"{self.url}/lab/steps?after=0") as answer:
            steps: Lines = json.load(answer)["steps"]
            return steps

    def kv_used_blocks(self) -> float:
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("lab:kv_used_blocks"))

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class Client:
    """`python -m runners.load.client`, told what to do by one line."""

    def __init__(self, line: str) -> None:
        command = [sys.executable, "-m", "runners.load.client"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def lines(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        return map(json.loads, self.process.stdout)

    def read_until(self, condition: Callable[[dict[str, Any]], bool]) -> Lines:
        read: Lines = []
        for line in self.lines():
            read.append(line)
            if condition(line):
                return read
        raise AssertionError(f"the client ended before it said so; its last line was {read[-1:]}")

    def end(self) -> int:
        """Its exit status, which must come by itself."""
        return self.process.wait(DEADLINE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="module")
def model_path() -> Path:
    return models.fetch(MODEL)


@pytest.fixture(scope="module")
def server(model_path: Path) -> Iterator[Server]:
    running = Server(model_path)
    yield running
    running.stop()


@pytest.fixture
def start() -> Iterator[Callable[[str], Client]]:
    clients: list[Client] = []

    def start_client(line: str) -> Client:
        clients.append(Client(line))
        return clients[-1]

    yield start_client
    for client in clients:
        client.kill()


def config_line(server: Server, model_path: Path, workload: dict[str, Any]) -> str:
    config = {"url": server.url, "model": server.model, "workload": workload, "seed": 11}
    return json.dumps({**config, "model_path": str(model_path), "request_timeout_s": 100.0})


def records(lines: Lines) -> list[RequestRecord]:
    return [RequestRecord.model_validate(line["record"]) for line in lines if line["type"] == "request"]


def samples(lines: Lines) -> list[Sample]:
    return [
        Sample.model_validate({name: value for name, value in line.items() if name != "type"})
        for line in lines
        if line["type"] == "tick"
    ]


@pytest.mark.parametrize("arrival", [SHORT["arrival"], {"kind": "open", "request_rate": 4.0}], ids=lambda a: a["kind"])
def test_a_load_on_the_real_server_is_what_its_plan_says(
    server: Server, model_path: Path, start: Callable[[str], Client], arrival: dict[str, Any]
) -> None:
    line = config_line(server, model_path, {**SHORT, "arrival": arrival})
    client = start(line)
    lines = list(client.lines())
    assert client.end() == 0
    config = ClientConfig.model_validate_json(line)
    plan = RequestPlan(config.workload, config.seed, make_prompts(config))
    planned = {request.number: request for phase in ("warmup", "measured") for request in plan.requests(phase)}
    recorded = {record.index: record for record in records(lines)}
    assert recorded.keys() == planned.keys()
    for number, record in recorded.items():
        request = planned[number]
        assert (record.status, record.finish_reason, record.error) == ("ok", "length", None)
        assert (record.input_tokens, record.phase) == (len(request.prompt_ids), request.phase)
        assert record.output_tokens == sum(record.token_counts) == request.params.max_tokens
        assert record.cached_tokens == 0
        times = [record.scheduled_s, record.sent_s, record.queued_s, record.scheduled_first_s, record.prefill_done_s]
        assert times == sorted(times, key=lambda t_s: t_s or 0.0)
        assert (record.prefill_done_s or 0.0) <= (record.first_token_s or 0.0) <= (record.finished_s or 0.0)
    output_tokens = sum(record.output_tokens or 0 for record in recorded.values())
    assert sum(sample.output_tokens for sample in samples(lines)) == output_tokens
    done = lines[-1]
    assert done["type"] == "done" and done["client"]["sent"] == 9
    assert 0 < done["window_start_s"] < done["window_end_s"]
    assert {"max_lag_s", "p99_lag_s", "cpu_share", "late_share", "was_limit"} <= done["client"].keys()
    zero_s = lines[0]["zero_monotonic_s"]
    assert lines[0]["type"] == "clock" and 0 < zero_s < time.monotonic()
    in_window = [s for s in server.steps() if done["window_start_s"] <= s["start_s"] - zero_s <= done["window_end_s"]]
    assert sum(step["prefill_tokens"] + step["decode_tokens"] for step in in_window) > 0


def cancel_by_signal(client: Client) -> None:
    client.process.send_signal(signal.SIGTERM)


def cancel_by_closing_stdin(client: Client) -> None:
    assert client.process.stdin is not None
    client.process.stdin.close()


@pytest.mark.parametrize("cancel", [cancel_by_signal, cancel_by_closing_stdin])
def test_a_cancelled_client_says_what_was_in_flight_and_frees_the_servers_blocks(
    server: Server, model_path: Path, start: Callable[[str], Client], cancel: Callable[[Client], None]
) -> None:
    client = start(config_line(server, model_path, ENDLESS))
    client.read_until(lambda line: line["type"] == "tick" and line["output_tokens"] > 0)
    cancel(client)
    rest = list(client.lines())
    assert client.end() == 0
    assert [record.status for record in records(rest)] == ["cancelled"] * 3
    assert rest[-1]["type"] == "done" and rest[-1]["client"]["cancelled"] is True
    deadline_s = time.monotonic() + DEADLINE_S
    while server.kv_used_blocks():
        assert time.monotonic() < deadline_s, "the server still holds blocks of requests that were cancelled"


def test_the_death_of_the_server_ends_the_load_with_errors_and_without_failure(
    model_path: Path, start: Callable[[str], Client]
) -> None:
    dying = Server(model_path)
    client = start(config_line(dying, model_path, ENDLESS))
    client.read_until(lambda line: line["type"] == "tick" and line["output_tokens"] > 0)
    dying.process.kill()
    dying.process.wait()
    rest = list(client.lines())
    assert client.end() == 0
    assert rest[-1]["client"]["server_gone"] is True
    assert {record.status for record in records(rest)} == {"error"}
    assert any(record.token_counts for record in records(rest)), "what had arrived is kept"


def test_a_client_whose_reader_has_gone_ends_by_itself(
    server: Server, model_path: Path, start: Callable[[str], Client]
) -> None:
    client = start(config_line(server, model_path, ENDLESS))
    client.read_until(lambda line: line["type"] == "tick")
    assert client.process.stdout is not None
    client.process.stdout.close()
    client.end()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_path": "/nowhere/model.gguf"}, "/nowhere/model.gguf"),
        ({"workload": {**SHORT, "num_requests": 0}}, "num_requests"),
        ({"speed": 3}, "speed"),
        ({"url": "ftp://here"}, "url"),
        ({"vocab_size": 300}, "model_path, vocab_size"),
        ({"model_path": None, "vocab_size": 300, "workload": {**SHORT, "kind": "text"}}, "workload.kind"),
    ],
)
def test_a_config_that_cant_be_used_is_named_on_stderr(
    server: Server, model_path: Path, start: Callable[[str], Client], change: dict[str, Any], named: str
) -> None:
    client = start(json.dumps({**json.loads(config_line(server, model_path, SHORT)), **change}))
    assert client.end() == 2
    assert client.process.stderr is not None
    said = client.process.stderr.read()
    assert said.startswith("error: the load generator can't start") and named in said
    assert "Traceback" not in said
