"""How large a request's body may be, before any of it is kept: a body goes to disk before Django knows who sends it.

An upload's address takes large ones, and only of who sends a token or a session's cookie along (whether these are good
is judged later). A body whose length is said beforehand is refused unread, another as soon as it is too long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from django.conf import settings

from experiments.importing.upload import MAX_BYTES as MOST_IMPORTED
from experiments.services.traces import MAX_UPLOAD_BYTES as MOST_OF_A_TRACE
from labsite.error_body import ErrorBody

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]
"""Of a scope, a receive and a send; libraries type these unlike each other."""

AROUND_BYTES = 1 << 20
"""What may stand around a file: a form's other fields."""
MOST_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + AROUND_BYTES
"""More than Django takes into memory, so that its own refusals hold."""
UPLOADS: Mapping[str, int] = {
    "/api/v1/imports": MOST_IMPORTED + AROUND_BYTES,
    "/experiments/import": MOST_IMPORTED + AROUND_BYTES,
    "/api/v1/traces": MOST_OF_A_TRACE + AROUND_BYTES,
    "/traces/add": MOST_OF_A_TRACE + AROUND_BYTES,
}
COOKIE = f"{settings.SESSION_COOKIE_NAME}=".encode()


class BodyLimit:
    """Wraps an ASGI application."""

    def __init__(self, app: App, uploads: Mapping[str, int] = UPLOADS, most: int = MOST_BYTES) -> None:
        self._app = app
        self._uploads = uploads
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope.get("headers") or ())
        limit = self._limit(str(scope.get("path", "")), headers)
        declared = headers.get(b"content-length", b"")
        if re.fullmatch(rb"\d{1,20}", declared) and int(declared) > limit:
            await _refuse(send, limit)
            return
        await self._counted(scope, receive, send, limit)

    def _limit(self, path: str, headers: Mapping[bytes, bytes]) -> int:
        known = b"authorization" in headers or COOKIE in headers.get(b"cookie", b"")
        return self._uploads.get(path, self._most) if known else self._most

    async def _counted(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        """Of a body that is too long the application hears that its sender has gone, and the sender why."""
        seen, over, answered = 0, False, False

        async def counting() -> Message:
            nonlocal seen, over
            message = await receive()
            seen += len(message.get("body", b""))
            over = over or seen > limit
            return {"type": "http.disconnect"} if over else message

        async def sending(message: Message) -> None:
            nonlocal answered
            if not over:
                answered = True
                await send(message)

        await self._app(scope, counting, sending)
        if over and not answered:
            await _refuse(send, limit)


async def _refuse(send: Send, limit: int) -> None:
    said = ErrorBody(detail=f"the body is too large; allowed: at most {limit} bytes").model_dump()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(said).encode()})
