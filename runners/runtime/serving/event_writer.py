"""Server-sent events to one client, with a comment now and then while there is nothing to say.

The comment (`: keep-alive`) is for what stands between: a proxy that takes a silent connection for a dead one. Clients
pass over it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from aiohttp import web

from runners.runtime.serving.http_answers import dump

WRITE_TIMEOUT_S = 60.0
KEEP_ALIVE = b": keep-alive\n\n"


class EventWriter:
    """`async with`: comments go out while inside, after each `keep_alive_s` of silence (0: never)."""

    def __init__(self, response: web.StreamResponse, keep_alive_s: float) -> None:
        self._response = response
        self._keep_alive_s = keep_alive_s
        self._written_s = time.monotonic()
        self._is_writing = False
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EventWriter:
        if self._keep_alive_s > 0:
            self._keeper = asyncio.create_task(self._keep_alive())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._keeper is not None:
            self._keeper.cancel()

    async def send(self, event: dict[str, Any]) -> None:
        await self.write(b"data: " + dump(event) + b"\n\n")

    async def send_done(self) -> None:
        await self.write(b"data: [DONE]\n\n")

    async def write(self, data: bytes) -> None:
        """Waits for a slow client, but not for ever. Raises ConnectionError or TimeoutError."""
        self._is_writing = True
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self._response.write(data)
        finally:
            self._is_writing, self._written_s = False, time.monotonic()

    async def _keep_alive(self) -> None:
        """Ends with the connection: the next event, or the server's watch on it, finds out and says so."""
        with suppress(ConnectionError, TimeoutError):
            while True:
                silent_s = time.monotonic() - self._written_s
                if silent_s < self._keep_alive_s:
                    await asyncio.sleep(self._keep_alive_s - silent_s)
                elif self._is_writing:
                    await asyncio.sleep(self._keep_alive_s)
                else:
                    await self.write(KEEP_ALIVE)
