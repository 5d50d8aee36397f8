"""Clients that hang up or dawdle, processes that die, a server that is asked to end: nothing is left behind."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from server_process import Answer, ServerProcess, text_of, wait_until
from tiny_chat_model import write_tiny_chat_model

LONG = {"max_tokens": 1500, "ignore_eos": True}


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def server(tiny_gguf: Path) -> Iterator[ServerProcess]:
    options = ("--max-num-seqs", "4", "--max-num-batched-tokens", "16", "--num-blocks", "256", "--threads", "1")
    with ServerProcess(tiny_gguf, *options) as process:
        yield process


@pytest.fixture
def own_server(tiny_gguf: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tiny_gguf, "--drain-s", "0.5", "--max-num-seqs", "1", "--max-waiting", "1") as process:
        yield process


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def nothing_held(server: ServerProcess) -> bool:
    page = server.get("/lab/steps?after=0&limit=1").json
    return page["in_flight"] == 0 and page["now"]["kv_used_blocks"] == 0 and page["now"]["waiting"] == 0


def steps_after(server: ServerProcess, after: int) -> list[Any]:
    steps: list[Any] = server.get(f"/lab/steps?after={after}&limit=5000").json["steps"]
    return steps


def last_step(server: ServerProcess) -> int:
    return int(server.get("/lab/steps?limit=5000").json["next"])


def test_clients_that_hang_up_free_their_blocks(server: ServerProcess) -> None:
    before = last_step(server)
    streams = [server.open_stream(f"stream {i}", **LONG) for i in range(6)]
    for stream in streams[:4]:
        next(stream.events())
    assert server.held_blocks() > 0
    for stream in streams:
        stream.hang_up()
    wait_until(lambda: nothing_held(server))
    assert sum(step["decode_tokens"] for step in steps_after(server, before)) < len(streams) * LONG["max_tokens"]
    assert server.complete("still there", max_tokens=2).status == 200


def test_a_client_that_hangs_up_in_its_prefill_frees_its_blocks(server: ServerProcess) -> None:
    before = last_step(server)
    prompt = [7] + [11] * 1400
    stream = server.open_stream(prompt, max_tokens=2)
    wait_until(lambda: steps_after(server, before))
    stream.hang_up()
    wait_until(lambda: nothing_held(server))
    assert sum(step["prefill_tokens"] for step in steps_after(server, before)) < len(prompt)


def test_a_whole_answer_that_no_one_waits_for_is_aborted_too(server: ServerProcess) -> None:
    before = last_step(server)
    connection = server.connect()
    body = {"model": server.model, "prompt": "hi", **LONG}
    connection.request("POST", "/v1/completions", json.dumps(body))
    wait_until(lambda: steps_after(server, before))
    connection.close()
    wait_until(lambda: nothing_held(server))
    assert len(steps_after(server, before)) < 1500


def test_an_id_can_be_used_again_after_its_client_hung_up(server: ServerProcess) -> None:
    body = {"model": server.model, "prompt": "again", "temperature": 0, "max_tokens": 3, "ignore_eos": True}
    whole = server.post("/v1/completions", body).json["choices"]
    for length in range(1, 8):
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps(body | {"max_tokens": length}), {"X-Request-Id": "it"})
        connection.close()
        answer = wait_until(lambda: taken(server.post("/v1/completions", body, {"X-Request-Id": "it"})))
        assert answer.json["choices"] == whole


def taken(answer: Answer) -> Answer | None:
    assert answer.status in (200, 409)
    return answer if answer.status == 200 else None


def test_a_client_that_does_not_read_stalls_no_one_and_loses_nothing(server: ServerProcess) -> None:
    expected = server.complete("slow reader", **LONG).json["choices"][0]["text"]
    slow = server.open_stream("slow reader", **LONG)
    for i in range(3):
        assert server.complete(f"quick {i}", max_tokens=5, ignore_eos=True).status == 200
    wait_until(lambda: nothing_held(server))
    events = list(slow.events())
    assert sum(event["lab"]["tokens"] for event in events) == LONG["max_tokens"]
    assert text_of(events) == expected


def test_many_at_once_get_what_each_would_get_alone(server: ServerProcess) -> None:
    prompts = [f"request number {i}" for i in range(12)]
    alone = [server.complete(prompt, max_tokens=20, ignore_eos=True).json for prompt in prompts]
    together: dict[int, Any] = {}

    def ask(index: int) -> None:
        together[index] = server.complete(prompts[index], max_tokens=20, ignore_eos=True).json

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[i]["choices"] for i in range(len(prompts))] == [answer["choices"] for answer in alone]


def test_a_full_waiting_queue_is_a_503_that_says_when_to_come_back(own_server: ServerProcess) -> None:
    streams = [own_server.open_stream("busy", **LONG) for _ in range(2)]
    wait_until(lambda: own_server.get("/lab/steps").json["in_flight"] == 2)
    answer = own_server.complete("one too many")
    assert (answer.status, answer.error["code"]) == (503, "engine_overloaded")
    assert answer.headers["Retry-After"] == "1"
    for stream in streams:
        stream.hang_up()
    wait_until(lambda: own_server.complete("again", max_tokens=1).status == 200)


def test_the_death_of_the_engine_ends_requests_with_an_error_and_then_the_server(
    own_server: ServerProcess,
) -> None:
    stream = own_server.open_stream("doomed", **LONG)
    events = stream.events()
    next(events)
    whole: list[Answer] = []
    waiter = threading.Thread(target=lambda: whole.append(own_server.complete("doomed too", **LONG)))
    waiter.start()
    wait_until(lambda: own_server.get("/lab/steps").json["in_flight"] == 2)
    own_server.engine().kill()
    last = list(events)[-1]
    assert last["error"]["code"] == "engine_unavailable"
    waiter.join()
    assert (whole[0].status, whole[0].error["code"]) == (503, "engine_unavailable")
    health = own_server.get("/health")
    assert health.status == 503
    assert "engine" in health.json["phase"]
    assert own_server.process.wait(20) == 1


def test_the_engine_does_not_outlive_a_killed_server(own_server: ServerProcess) -> None:
    engine = own_server.engine()
    own_server.process.kill()
    wait_until(lambda: is_gone(engine.pid))


def test_a_server_does_not_outlive_what_started_it(tiny_gguf: Path) -> None:
    code = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"
    command = [sys.executable, "-m", "runners.runtime.server", "--model", str(tiny_gguf), "--port", "0"]
    starter = subprocess.Popen([sys.executable, "-c", code, *command], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    ready = json.loads(starter.stdout.readline())
    family = psutil.Process(starter.pid).children(recursive=True)
    assert ready["event"] == "ready"
    assert len(family) == 2
    starter.kill()
    starter.wait()
    wait_until(lambda: all(is_gone(process.pid) for process in family))
    starter.stdout.close()


def test_sigterm_lets_a_short_request_finish(tiny_gguf: Path) -> None:
    with ServerProcess(tiny_gguf, "--drain-s", "120") as server:
        events = server.open_stream("brief", max_tokens=20, ignore_eos=True).events()
        first = next(events)
        server.process.send_signal(signal.SIGTERM)
        assert sum(event["lab"]["tokens"] for event in [first, *events]) == 20
        assert server.process.wait(60) == 0


def test_sigterm_ends_a_long_request_with_an_error_after_the_drain(own_server: ServerProcess) -> None:
    engine = own_server.engine()
    stream = own_server.open_stream("endless", **LONG)
    events = stream.events()
    next(events)
    waiting = own_server.open_stream("endless too", **LONG)
    wait_until(lambda: own_server.get("/lab/steps").json["now"]["waiting"] == 1)
    os.kill(engine.pid, signal.SIGSTOP)  # so that no speed of the model finishes them within the drain
    own_server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: own_server.get("/health").status == 503)
    refused = own_server.complete("late")
    assert (refused.status, refused.error["code"]) == (503, "shutting_down")
    assert list(events)[-1]["error"]["code"] == "shutting_down"
    assert list(waiting.events())[-1]["error"]["code"] == "shutting_down"
    assert own_server.process.wait(20) == 0
    assert is_gone(engine.pid)


def test_a_second_sigterm_cuts_the_drain_short(tiny_gguf: Path) -> None:
    with ServerProcess(tiny_gguf, "--drain-s", "600", "--max-num-seqs", "1") as server:
        engine = server.engine()
        events = server.open_stream("endless", **LONG).events()
        next(events)
        os.kill(engine.pid, signal.SIGSTOP)  # so that no speed of the model finishes it
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.get("/health").status == 503)
        refused = server.complete("late")
        assert (refused.status, refused.error["code"]) == (503, "shutting_down")
        assert refused.headers["Retry-After"] == "600"
        server.process.send_signal(signal.SIGTERM)
        assert list(events)[-1]["error"]["code"] == "shutting_down"
        assert server.process.wait(20) == 0
        assert is_gone(engine.pid)


def test_a_silent_stream_is_kept_alive_by_comments_that_cost_nothing(tiny_gguf: Path) -> None:
    with ServerProcess(tiny_gguf, "--keep-alive-s", "0.05", "--max-num-seqs", "1") as server:
        engine = server.engine()
        os.kill(engine.pid, signal.SIGSTOP)
        connection = server.connect()
        body = {"model": server.model, "prompt": "hi", "stream": True, "max_tokens": 600, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        os.kill(engine.pid, signal.SIGCONT)
        response = connection.getresponse()
        os.kill(engine.pid, signal.SIGSTOP)
        lines = iter(response)
        seen: list[bytes] = []
        while sum(line.startswith(b":") for line in seen) < 3:
            seen.append(next(lines))
        os.kill(engine.pid, signal.SIGCONT)
        seen += lines
        assert {line for line in seen if line.startswith(b":")} == {b": keep-alive\n"}
        events = [json.loads(line[6:]) for line in seen if line.startswith(b"data: {")]
        assert sum(event["lab"]["tokens"] for event in events) == 600
        assert seen[-2:] == [b"data: [DONE]\n", b"\n"]
        connection.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_health_says_how_far_loading_is(tiny_gguf: Path) -> None:
    server = ServerProcess(tiny_gguf, "--port", str(port := free_port()), wait=False)
    server.port = port
    seen: list[tuple[int, str]] = []

    def is_up() -> bool:
        try:
            answer = server.get("/health")
            if answer.status == 503:
                refused = server.complete("early", model="any")
                assert refused.status in (200, 404) or refused.error["code"] == "loading"
        except (ConnectionError, http.client.HTTPException):
            return False
        seen.append((answer.status, answer.json["phase"]))
        return answer.status == 200

    server.model = "any"
    try:
        wait_until(is_up, 60)
    finally:
        server.stop()
    assert seen[0][0] == 503
    assert {phase for status, phase in seen if status == 503} & {"starting the engine", "loading weights"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "no-such-model"], "no-such-model"),
        (["--model", "smollm2-135m-instruct", "--port", "{taken}"], "cannot listen on 127.0.0.1:"),
        (["--model", "smollm2-135m-instruct", "--weights", "int3"], "int3"),
        (["--model", "smollm2-135m-instruct", "--max-num-seqs", "0"], "at least 1"),
    ],
)
def test_a_server_that_cannot_start_says_why(options: list[str], said: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        filled = [option.format(taken=taken.getsockname()[1]) for option in options]
        done = subprocess.run(
            [sys.executable, "-m", "runners.runtime.server", *filled], capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]


def test_a_model_file_that_cannot_be_read_ends_the_server_with_the_reason(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    done = subprocess.run(
        [sys.executable, "-m", "runners.runtime.server", "--model", str(broken), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "broken.gguf" in done.stderr


def test_sigterm_while_the_engine_loads_ends_both(tiny_gguf: Path) -> None:
    server = ServerProcess(tiny_gguf, wait=False)
    (engine,) = wait_until(lambda: psutil.Process(server.process.pid).children())
    assert server.stop() == 0
    assert is_gone(engine.pid)


def test_sigterm_in_a_fetch_leaves_no_process(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        env = os.environ | {"LAB_HOME": str(tmp_path), "PIP_INDEX_URL": index, "PIP_RETRIES": "0"}
        server = ServerProcess("smollm2-135m-instruct", wait=False, env=env)
        silent.settimeout(60)
        asked, _ = silent.accept()  # pip waits for an answer from here on
        fetching = psutil.Process(server.process.pid).children(recursive=True)
        assert server.stop() == 0
        assert fetching
        assert all(is_gone(process.pid) for process in fetching)
        asked.close()


def test_the_servers_own_process_never_loads_torch() -> None:
    code = "import sys, runners.runtime.server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
