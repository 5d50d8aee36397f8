"""`python scripted_server.py TOKENS_PER_S`: streams completions at a set pace, as cheaply as Python can.

Each request gets `max_tokens` events, one token in each, at TOKENS_PER_S from its arrival on, and its usage, with one
prompt token. It prints its port. All streams that are due are written in one sweep, so that the server stays far from
its own limit; it checks nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import re
import sys
from itertools import count

SWEEP_S = 0.005
MAX_TOKENS = re.compile(rb'"max_tokens": ?(\d+)')
WELL = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(fields: bytes) -> bytes:
    data = b'data: {"id":"cmpl-0","object":"text_completion","created":1764547200,"model":"tiny",' + fields + b"}\n\n"
    return b"%x\r\n" % len(data) + data + b"\r\n"


TOKEN = chunk(b'"choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null}],"lab":{"tokens":1}')
LAST = chunk(b'"choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":"length"}],"lab":{"tokens":1}')
USAGE = b'"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d}'
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Stream(asyncio.Protocol):
    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._received = bytearray()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET "):
            self.write(WELL)
            return
        self._received += data
        found = MAX_TOKENS.search(self._received)
        if found and self._received.endswith(b"}"):
            num_tokens = int(found[1])
            self._received.clear()
            self.write(HEAD)
            self._pace.begin(self, num_tokens)

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)


class Pace:
    """Who gets its next token when."""

    def __init__(self, tokens_per_s: float) -> None:
        self._gap_s = 1 / tokens_per_s
        self._due: list[tuple[float, int, Stream, int, int]] = []
        self._order = count()

    def begin(self, stream: Stream, num_tokens: int) -> None:
        now_s = asyncio.get_running_loop().time()
        heapq.heappush(self._due, (now_s + self._gap_s, next(self._order), stream, num_tokens, num_tokens))

    async def run(self) -> None:
        loop, due = asyncio.get_running_loop(), self._due
        while True:
            now_s = loop.time()
            while due and due[0][0] <= now_s:
                due_s, _, stream, left, whole = due[0]
                if left > 1:
                    stream.write(TOKEN)
                    heapq.heapreplace(due, (due_s + self._gap_s, next(self._order), stream, left - 1, whole))
                else:
                    stream.write(LAST + chunk(USAGE % whole) + END)
                    heapq.heappop(due)
            await asyncio.sleep(SWEEP_S)


async def main() -> None:
    pace = Pace(float(sys.argv[1]))
    server = await asyncio.get_running_loop().create_server(lambda: Stream(pace), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await pace.run()


if __name__ == "__main__":
    asyncio.run(main())
