"""What a body may weigh, before it is kept: by its address, its length said beforehand or not, and who sends it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.urls import resolve

from experiments.importing.upload import MAX_BYTES
from experiments.services.traces import MAX_UPLOAD_BYTES
from labsite.body_limit import MOST_BYTES, UPLOADS, BodyLimit

TOKEN = (b"authorization", b"Bearer lab_x")
COOKIE = (b"cookie", b"a=b; sessionid=xyz")


async def count(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads the whole body and says how long it was; of a sender that has gone, nothing."""
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message["body"])
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


def ask(pieces: list[bytes], path: str = "/", headers: list[tuple[bytes, bytes]] | None = None) -> tuple[int, str, int]:
    """The status and body of the answer, and how many pieces were read."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False
    sent: list[Any] = []
    read = 0

    async def receive() -> Any:
        nonlocal read
        read += 1
        return messages[read - 1]

    async def send(message: Any) -> None:
        sent.append(message)

    app = BodyLimit(count, {"/upload": 100}, 10)
    scope = {"type": "http", "path": path, "headers": headers or []}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], sent[1]["body"].decode(), read


@pytest.mark.parametrize("known", [TOKEN, COOKIE])
def test_an_upload_takes_more_than_other_addresses_from_who_sends_a_token_or_a_cookie(known: Any) -> None:
    assert ask([b"x" * 10]) == (200, "10", 1)
    assert ask([b"x" * 100], "/upload", [known]) == (200, "100", 1)
    for path, headers in (("/", [known]), ("/upload", []), ("/upload/", [known])):
        assert ask([b"x" * 11], path, headers)[0] == 413


def test_a_length_that_is_said_beforehand_is_refused_unread() -> None:
    status, body, read = ask([b"x"], headers=[(b"content-length", b"11")])
    assert (status, read) == (413, 0)
    assert json.loads(body) == {"detail": "the body is too large; allowed: at most 10 bytes", "errors": []}


def test_one_that_is_not_said_is_read_no_further_than_the_limit() -> None:
    assert ask([b"x" * 6] * 5)[::2] == (413, 2)
    assert ask([b"x" * 5] * 2) == (200, "10", 2)


@pytest.mark.parametrize("length", [b"many", b"-1", b"1" * 30, b""])
def test_a_length_that_is_no_number_changes_nothing(length: bytes) -> None:
    assert ask([b"x" * 5], headers=[(b"content-length", length)])[0] == 200
    assert ask([b"x" * 6] * 2, headers=[(b"content-length", length)])[0] == 413


def test_sockets_pass() -> None:
    passed: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    asyncio.run(BodyLimit(app)({"type": "websocket"}, None, None))  # type: ignore[arg-type]
    assert passed == ["websocket"]


def test_every_upload_has_an_address_and_room_for_its_largest_file(settings: Any) -> None:
    assert settings.SESSION_COOKIE_NAME == "sessionid"
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE < MOST_BYTES
    for path, limit in UPLOADS.items():
        assert resolve(path)
        assert limit > (MAX_BYTES if "import" in path else MAX_UPLOAD_BYTES)
