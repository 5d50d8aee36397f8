"""A real web process (uvicorn on a free port) on the test's database and broker, and sockets to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class WebProcess:
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def socket(self, path: str, *, token: str | None = None, **options: Any) -> ClientConnection:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return connect(
            f"ws://{self.host}{path}", additional_headers={**headers, **options.pop("headers", {})}, **options
        )


@contextmanager
def web_process(env: dict[str, str], log: Path) -> Iterator[WebProcess]:
    command = [sys.executable, "-m", "uvicorn", "labsite.asgi:application", "--host", "127.0.0.1", "--port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--lifespan", "off"], cwd=REPOSITORY, env={**os.environ, **env}, stderr=output, stdout=output
        )
    try:
        web = WebProcess(_port_of(process, log))
        httpx.get(f"http://{web.host}/health", timeout=20).raise_for_status()
        yield web
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port_of(process: subprocess.Popen[bytes], log: Path, within_s: float = 30.0) -> int:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        _, found, rest = log.read_text().partition("Uvicorn running on http://127.0.0.1:")
        if found and " " in rest:
            return int(rest.split(" ")[0])
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(f"the web process did not start: {log.read_text()}")


def next_message(socket: ClientConnection, within_s: float = 15.0) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(socket.recv(timeout=within_s))
    return message


def messages_until(socket: ClientConnection, last: Any, within_s: float = 20.0) -> list[dict[str, Any]]:
    """Messages up to and with the first for which `last` is true."""
    deadline = time.monotonic() + within_s
    found: list[dict[str, Any]] = []
    while not found or not last(found[-1]):
        found.append(next_message(socket, max(0.01, deadline - time.monotonic())))
    return found


def close_code(socket: ClientConnection) -> int | None:
    try:
        while True:
            socket.recv(timeout=15)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None
