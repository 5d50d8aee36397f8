"""A real server process for the tests, and the plainest client for it."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

START_S = 120.0


def wait_until(condition: Callable[[], Any], deadline_s: float = 30.0) -> Any:
    """The first true value of `condition`; an assertion error when none comes in time."""
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.01)
    return value


class Answer:
    """A response that was read whole."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.text = response.status, response.headers, response.read().decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> Any:
        return self.json["error"]


class ServerProcess:
    """`python -m runners.runtime.server` on a free port."""

    def __init__(
        self, model: Path | str, *options: str, wait: bool = True, env: Mapping[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "runners.runtime.server", "--model", str(model), "--port", "0"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=env)
        self.line = ""
        self._reader = threading.Thread(target=self._read_line, daemon=True)
        self._reader.start()
        if wait:
            self.wait_ready()

    def _read_line(self) -> None:
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()

    def wait_ready(self) -> None:
        self._reader.join(START_S)
        assert self.line, f"the server gave no ready line; its status is {self.process.poll()}"
        self.ready = json.loads(self.line)
        self.port, self.model = self.ready["port"], self.ready["model"]

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(20)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()

    def engine(self) -> psutil.Process:
        """The engine's own process."""
        (child,) = psutil.Process(self.process.pid).children()
        return child

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def get(self, path: str) -> Answer:
        connection = self.connect()
        try:
            connection.request("GET", path)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = self.connect()
        try:
            connection.request("POST", path, raw, {"Content-Type": "application/json", **(headers or {})})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def complete(self, prompt: object, **fields: object) -> Answer:
        """A greedy completion unless `fields` say otherwise."""
        body = {"model": self.model, "prompt": prompt, "temperature": 0, "max_tokens": 16, **fields}
        return self.post("/v1/completions", body)

    def chat(self, content: str, **fields: object) -> Answer:
        messages = [{"role": "user", "content": content}]
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": 32, **fields}
        return self.post("/v1/chat/completions", body)

    def open_stream(self, prompt: object, **fields: object) -> Stream:
        """A streamed completion whose events can be read one by one, and which can be left."""
        body = {"model": self.model, "prompt": prompt, "temperature": 0, "stream": True, **fields}
        connection = self.connect()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        assert isinstance(connection.sock, socket.socket)
        return Stream(connection)

    def gauge(self, name: str) -> float:
        """The value of one metric, summed over its labels."""
        found = re.findall(rf"^lab:{name}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics").text, re.MULTILINE)
        assert found, f"no metric is called lab:{name}"
        return sum(map(float, found))

    def held_blocks(self) -> int:
        return int(self.gauge("kv_used_blocks"))


class Stream:
    """A response that is read as it comes."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        assert isinstance(connection.sock, socket.socket)
        self.socket = connection.sock
        self._response: http.client.HTTPResponse | None = None

    @property
    def response(self) -> http.client.HTTPResponse:
        self._response = self._response or self.connection.getresponse()
        return self._response

    def events(self) -> Iterator[Any]:
        """Each event as an object; ends at [DONE] or at the end of the connection."""
        for line in self.response:
            if line.startswith(b"data: "):
                if line == b"data: [DONE]\n":
                    return
                yield json.loads(line[6:])

    def hang_up(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.connection.close()


def text_of(events: list[Any]) -> str:
    return "".join(event["choices"][0]["text"] for event in events if event["choices"])
