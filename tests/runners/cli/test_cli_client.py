"""The client is patient where sending again is safe, and tells every other answer as it is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from runners.cli import client as client_module
from runners.cli.client import Client
from runners.cli.errors import Refused, Unreachable

Answer = tuple[int, dict[str, str], bytes] | None


class Script:
    """Answers in order; None closes the connection without a word. `seen` is what was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.seen: list[tuple[str, str, bytes]] = []
        self.url = ""

    def say(self, *answers: int | tuple[int, Any] | tuple[int, Any, dict[str, str]] | None) -> None:
        for answer in answers:
            if answer is None:
                self.answers.append(None)
                continue
            status, body, headers = (*answer, {})[:3] if isinstance(answer, tuple) else (answer, {}, {})
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.answers.append((status, headers, content))


@pytest.fixture
def script() -> Iterator[Script]:
    played = Script()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            played.seen.append((self.command, self.path, body))
            answer = played.answers.pop(0)
            if answer is None:
                self.close_connection = True
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    played.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield played
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def lab(script: Script, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(client_module, "FIRST_WAIT_S", 0.01)
    return Client(script.url, "lab_x")


def test_a_read_goes_again_when_the_server_is_down_for_a_moment(script: Script, lab: Client) -> None:
    script.say(None, 503, 502, (200, {"a": 1}))
    assert lab.get("/runs/1", b=None, c=True) == {"a": 1}
    assert [(method, path) for method, path, _ in script.seen] == [("GET", "/api/v1/runs/1?c=true")] * 4


def test_a_write_goes_once_unless_it_may_go_twice(script: Script, lab: Client) -> None:
    script.say(None)
    with pytest.raises(Unreachable):
        lab.post("/experiments", {"a": 1})
    script.say(503, (201, {"id": 1}))
    assert lab.post("/experiments", {"a": 1}, repeat=True) == {"id": 1}
    assert [body for _, _, body in script.seen] == [b'{"a":1}'] * 3


def test_too_many_requests_wait_as_long_as_the_lab_says(
    script: Script, lab: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    script.say((429, {"detail": "slow"}, {"Retry-After": "7"}), (429, {"detail": "slow"}, {"Retry-After": "900"}), 200)
    said: list[str] = []
    Client(lab.url, "t", tell=said.append).post("/runs/1/cancel")
    assert slept == [7.0, client_module.LONGEST_RETRY_AFTER_S]
    assert said[0] == "slow (429); again in 7 s"


def test_too_many_requests_for_too_long_is_a_refusal(
    script: Script, lab: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda s: None)
    script.say(*[(429, {"detail": "slow down"}, {"Retry-After": "1"})] * (client_module.MOST_RATE_LIMITED + 1))
    with pytest.raises(Refused, match="slow down"):
        lab.get("/runs")


def test_a_refusal_names_each_field_and_what_is_allowed(script: Script, lab: Client) -> None:
    fault = {"field": "engine.weights", "message": "not known", "allowed": ["bf16", "int8"]}
    script.say((422, {"detail": "the document is refused", "errors": [fault]}))
    with pytest.raises(Refused) as refused:
        lab.post("/experiments")
    assert str(refused.value) == ("the document is refused (422)\n  engine.weights: not known (allowed: bf16, int8)")
    assert refused.value.as_dict()["errors"] == [fault]


@pytest.mark.parametrize(
    ("answer", "message"),
    [((500, {"detail": "the lab failed"}), "500: the lab failed"), ((200, b"<html>"), "no JSON"),
     ((302, b"", {"Location": "https://other.example"}), "is that the lab's address"),
     ((500, b"<html>"), "500: Internal Server Error")],
)  # fmt: skip
def test_what_is_no_answer_of_a_lab_is_told_as_such(script: Script, lab: Client, answer: Any, message: str) -> None:
    script.say(answer)
    with pytest.raises(Unreachable, match=message):
        lab.post("/experiments")


def test_another_servers_refusal_is_told_shortly(script: Script, lab: Client) -> None:
    script.say((404, b"<html>a page</html>"))
    with pytest.raises(Refused, match=r"^Not Found \(404\)$"):
        lab.get("/x")


def test_a_list_is_read_page_by_page_as_far_as_asked(script: Script, lab: Client) -> None:
    script.say((200, {"items": [1, 2], "next": "c"}), (200, {"items": [3, 4], "next": "d"}))
    assert list(lab.items("/runs", 3, state="done")) == [1, 2, 3]
    assert [path for _, path, _ in script.seen] == [
        "/api/v1/runs?limit=3&state=done", "/api/v1/runs?cursor=c&limit=1&state=done",
    ]  # fmt: skip


def test_a_list_is_read_to_its_end_unless_a_bound_is_given(script: Script, lab: Client) -> None:
    script.say((200, {"items": [5], "next": "c"}), (200, {"items": [], "next": None}))
    assert list(lab.items("/runs")) == [5]


def test_a_stream_that_breaks_off_is_told(script: Script, lab: Client) -> None:
    script.say((200, b"half", {"Content-Length": "100"}))
    with pytest.raises(Unreachable, match="broke off"), lab.stream("/x") as response:
        b"".join(response.iter_bytes())


def test_a_stream_that_is_refused_is_a_refusal(script: Script, lab: Client) -> None:
    script.say((409, {"detail": "not yet", "errors": []}))
    with pytest.raises(Refused, match="not yet"), lab.stream("/x"):
        pass


def test_what_is_not_there_is_named(script: Script, lab: Client) -> None:
    script.say((404, {"detail": "not found", "errors": []}))
    with pytest.raises(Refused, match=r"^/runs/9: not found, or not yours to see \(404\)$"):
        lab.get("/runs/9")
