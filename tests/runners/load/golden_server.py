"""A server of scripted bytes, and a clock that stands still unless something waits: exact times, no sleeping.

The real load client runs against it in an event loop whose time is virtual: where nothing is ready the clock jumps to
the next timer. Connections are in memory; what crosses them is the HTTP and the SSE of a socket.
"""

from __future__ import annotations

import asyncio
import json
import selectors
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import aiohttp

from runners.load.drive import LoadResult, drive
from runners.load.http import Target
from runners.load.planned import LoadPlan

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


class JumpingSelector(selectors.DefaultSelector):
    """Never waits: a wait for a timer moves the clock to it. A wait for nothing at all would never end."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing is ready and no timer is set: the load would wait for ever")
        # To the nanosecond: sums of waits leave no rounding behind, and times in binary fractions are exact.
        self.now_s = round(self.now_s + max(timeout, 0.0), 9)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop at virtual time, from 0 s."""

    def __init__(self) -> None:
        self._virtual = JumpingSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


Answers = Callable[[str, float], "Answer"]
"""Of a request's id, and the time at which it came."""


@dataclass(frozen=True)
class Answer:
    """Bytes of one answer, each piece with its seconds since the request came; then the connection stays, or drops."""

    pieces: Sequence[tuple[float, bytes]]
    drops_s: float | None = None


def events(*timed: tuple[float, bytes], headers_s: float = 0.0, end_s: float | None = None) -> Answer:
    """A stream of events, each in a chunk of its own at its time; it ends `end_s` after the request, or never."""
    pieces = [(headers_s, HEADERS), *((at_s, in_chunk(data)) for at_s, data in timed)]
    return Answer([*pieces, *([(end_s, END)] if end_s is not None else [])])


def in_chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(value: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def tokens(count: int, finish_reason: str | None = None) -> bytes:
    """As the runtime's server says it: how many tokens an event carries."""
    return event({"choices": [{"text": "x" * count, "finish_reason": finish_reason}], "lab": {"tokens": count}})


def text(words: str, finish_reason: str | None = None) -> bytes:
    """As any other server says it."""
    return event({"choices": [{"text": words, "finish_reason": finish_reason}]})


def usage(input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> bytes:
    details = {"cached_tokens": cached_tokens}
    told = {"prompt_tokens": input_tokens, "completion_tokens": output_tokens, "prompt_tokens_details": details}
    return event({"choices": [], "usage": told})


class GoldenServer:
    """Answers each request by its id as scripted."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.connections = 0
        self.arrived_s: dict[str, float] = {}

    def connect(self, client: asyncio.Protocol) -> None:
        self.connections += 1
        client.connection_made(MemoryTransport(self, client))

    def take(self, connection: MemoryTransport, request_id: str) -> None:
        loop = asyncio.get_running_loop()
        now_s = self.arrived_s[request_id] = loop.time()
        answer = self._answers(request_id, now_s)
        # Timers of one moment fire in any order: what arrives together is one piece.
        for at_s, pieces in groupby(answer.pieces, key=itemgetter(0)):
            loop.call_at(now_s + at_s, connection.deliver, b"".join(data for _, data in pieces))
        if answer.drops_s is not None:
            loop.call_at(now_s + answer.drops_s, connection.abort)


@dataclass(eq=False)
class MemoryTransport(asyncio.Transport):
    """The client's end of a connection: whole requests go to the server, what the server delivers to the protocol."""

    server: GoldenServer
    protocol: asyncio.Protocol
    buffer: bytearray = field(default_factory=bytearray)
    closed: bool = False

    def write(self, data: Any) -> None:
        self.buffer += data
        head, found, body = bytes(self.buffer).partition(b"\r\n\r\n")
        if not found:
            return
        lines = [line.partition(":") for line in head.decode().split("\r\n")[1:]]
        headers = {name.lower(): value.strip() for name, _, value in lines}
        if len(body) >= int(headers["content-length"]):
            self.buffer.clear()
            self.server.take(self, headers["x-request-id"])

    def deliver(self, data: bytes) -> None:
        if not self.closed:
            self.protocol.data_received(data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        raise AssertionError("the client fell behind a scripted server")

    def resume_reading(self) -> None:
        return


class MemoryConnector(aiohttp.BaseConnector):
    """Connects to the golden server, whatever the address."""

    def __init__(self, server: GoldenServer) -> None:
        super().__init__(limit=0)
        self._server = server

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        protocol = self._factory()
        self._server.connect(protocol)
        return protocol


Lines = list[dict[str, Any]]


def load_golden(
    plan: LoadPlan, answers: Answers, timeout_s: float = 1000.0, *, stop_when_saturated: bool = False
) -> tuple[LoadResult, Lines, GoldenServer]:
    """Runs the load from virtual 0 s to its end."""
    server, lines = GoldenServer(answers), Lines()

    async def run() -> LoadResult:
        loop = asyncio.get_running_loop()
        session = aiohttp.ClientSession(
            connector=MemoryConnector(server), timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        async with session as http:
            target = Target(http, "http://golden", "tiny", timeout_s, loop.time, 0.0)
            return await drive(target, plan, lines.append, stop_when_saturated=stop_when_saturated)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run()), lines, server
