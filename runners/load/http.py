"""One request over HTTP: streamed from /v1/completions, timed as it arrives, always ending in a RequestRecord.

Whatever goes wrong with a request is in its record, never raised; only the cancelling of the load itself passes
on, after the record.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from runners.events import RequestRecord
from runners.load.dialects import LAB, Dialect
from runners.load.planned import Ids, PlannedRequest
from runners.load.sse import SseError, SseParser
from runners.load.trace import RequestTrace

MAX_ERROR_CHARS = 500


class ServerRefused(Exception):
    """The server answered with an error, before or in its stream."""


class BrokenAnswer(Exception):
    """What came is not an answer of this protocol, or ended before it was complete."""


@dataclass(frozen=True)
class Target:
    """Where requests go. `zero_s` is the reading of `now` at the run's time zero. With `to_text` prompts are sent as
    text; a `key` goes into a header of each request, and into no record."""

    http: aiohttp.ClientSession
    url: str
    model: str
    timeout_s: float
    now: Callable[[], float]
    zero_s: float
    dialect: Dialect = LAB
    to_text: Callable[[Ids], str] | None = None
    key: str | None = None

    def body(self, request: PlannedRequest) -> bytes:
        prompt = request.prompt_ids if self.to_text is None else self.to_text(request.prompt_ids)
        return self.dialect.body(request, self.model, prompt)

    def headers(self, request: PlannedRequest) -> dict[str, str]:
        authorised = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        return {"Content-Type": "application/json", "X-Request-Id": request.request_id, **authorised}

    def without_key(self, text: str) -> str:
        """Words of a server may repeat the key that it was sent."""
        return text if self.key is None else text.replace(self.key, "[key]")

    def run_time(self) -> float:
        return self.now() - self.zero_s


TokensSeen = Callable[[RequestTrace, int], None]


async def send(
    target: Target, trace: RequestTrace, body: bytes, seen: TokensSeen, ended: Callable[[RequestRecord], None]
) -> RequestRecord:
    """Send one request and follow its stream to the end. `seen` is called at each stream event with tokens,
    `ended` once with the record, also when this task is cancelled."""
    try:
        async with asyncio.timeout(target.timeout_s):
            await _stream(target, trace, body, seen)
    except asyncio.CancelledError:
        ended(trace.end(target.run_time(), "cancelled", "the load was cancelled"))
        raise
    except TimeoutError:
        record = trace.end(target.run_time(), "timeout", f"not finished within {target.timeout_s:g} s")
    except aiohttp.ClientConnectorError as error:
        trace.refused = True
        record = trace.end(target.run_time(), "error", target.without_key(describe(error)))
    except (aiohttp.ClientError, OSError, ServerRefused, BrokenAnswer, SseError) as error:
        record = trace.end(target.run_time(), "error", target.without_key(describe(error)))
    else:
        record = trace.end(target.run_time(), "ok")
    ended(record)
    return record


def describe(error: BaseException) -> str:
    text = str(error)
    named = text if isinstance(error, ServerRefused | BrokenAnswer) else f"{type(error).__name__}: {text}"
    return named[:MAX_ERROR_CHARS]


async def _stream(target: Target, trace: RequestTrace, body: bytes, seen: TokensSeen) -> None:
    headers = target.headers(trace.request)
    async with target.http.post(f"{target.url}/v1/completions", data=body, headers=headers) as response:
        trace.headers_s = target.run_time()
        if response.status != 200:
            raise ServerRefused(_error_message(response.status, await response.text(errors="replace")))
        if response.content_type != "text/event-stream":
            raise BrokenAnswer(f"the answer is {response.content_type}, not text/event-stream")
        parser, complete = SseParser(), False
        async for piece in response.content.iter_any():
            arrived_s = target.run_time()
            for event in parser.feed(piece) if not complete else ():
                if event == "[DONE]":
                    _check_complete(trace)
                    complete = True
                    break
                _take_event(target, trace, event, arrived_s, seen)
        # Read to its end, the answer leaves its connection to the next request.
    if not complete:
        raise BrokenAnswer("the stream ended without [DONE]")


def _take_event(target: Target, trace: RequestTrace, event: str, arrived_s: float, seen: TokensSeen) -> None:
    try:
        chunk = json.loads(event)
        if "error" in chunk:
            raise ServerRefused(str(chunk["error"].get("message", chunk["error"])))
        lab = chunk.get("lab") or {}
        choice = chunk["choices"][0] if chunk.get("choices") else {}
        count = int(lab["tokens"]) if "tokens" in lab else _count(target.dialect, chunk, choice, trace)
        if choice.get("token_ids"):
            trace.token_ids.extend(map(int, choice["token_ids"]))
        if trace.request.check is not None and choice.get("text"):
            trace.texts.append(str(choice["text"]))
        if choice.get("finish_reason"):
            trace.finish_reason = str(choice["finish_reason"])
        if chunk.get("usage"):
            trace.take_usage(chunk["usage"])
        if lab.get("finished_s") is not None:
            trace.take_runtime(lab, target.zero_s)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise BrokenAnswer(f"a stream event is not a completion chunk: {event[:200]!r}") from error
    if count > 0:
        trace.add_tokens(arrived_s, count)
        seen(trace, count)


def _count(dialect: Dialect, chunk: dict[str, Any], choice: dict[str, Any], trace: RequestTrace) -> int:
    """Output tokens that the event brought. A server that doesn't say is taken at its word that one event is one token;
    its usage corrects the total."""
    told = dialect.told(chunk)
    return int(bool(choice.get("text"))) if told is None else max(told - trace.counted_tokens, 0)


def _check_complete(trace: RequestTrace) -> None:
    if trace.finish_reason is None:
        raise BrokenAnswer("the stream ended without a finish_reason")
    if not trace.token_times_s:
        raise BrokenAnswer("the stream ended without a token")


def _error_message(status: int, text: str) -> str:
    """The message of OpenAI's error object, or the body as it is."""
    try:
        message = json.loads(text)["error"]["message"]
    except (ValueError, TypeError, KeyError):
        message = text.strip()[:200] or "no body"
    return f"HTTP {status}: {message}"
