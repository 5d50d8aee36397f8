"""The HTTP endpoints. A handler lives as long as its client: aiohttp cancels it when the connection goes, and
its `finally` gives the sequences back to the engine.

Error bodies are OpenAI's everywhere, unknown paths and oversized bodies included.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from runners.runtime.serving.errors import ApiError, bad_field
from runners.runtime.serving.protocol import ChatBody, CompletionBody, GenerationBody, parse
from runners.runtime.serving.responses import Answer
from runners.runtime.serving.sequence_stream import SequenceStream, deltas, wait_accepted
from runners.runtime.serving.service import Service, new_request_id
from runners.runtime.serving.steps import step_fields

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_STEPS_PER_PAGE = 5000
WRITE_TIMEOUT_S = 60.0
SERVICE = web.AppKey("service", Service)
REQUEST_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
SERVER_FAULT = ApiError(500, "the server failed on this request; its log says why", kind="server_error")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


def dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=dump(value), status=status, headers=headers, content_type="application/json")


def error_answer(error: ApiError) -> web.Response:
    return json_answer(error.body(), error.status, error.headers())


@web.middleware
async def openai_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure before the first byte of an answer becomes an error object."""
    try:
        return await handler(request)
    except ApiError as error:
        return error_answer(error)
    except web.HTTPRequestEntityTooLarge:
        return error_answer(ApiError(413, f"the body is larger than {MAX_BODY_BYTES} bytes", code="body_too_large"))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return error_answer(ApiError(error.status, f"{request.method} {request.path}: {error.reason}"))
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return error_answer(SERVER_FAULT)


def request_id_of(request: web.Request) -> str:
    """The client's X-Request-Id, or a new one. Raises ApiError 400 for one that is not plain."""
    given = request.headers.get("X-Request-Id")
    if given is None:
        return new_request_id()
    if not REQUEST_ID.fullmatch(given):
        raise bad_field("X-Request-Id", "must be 1 to 128 characters of A–Z a–z 0–9 . _ : / -")
    return given


async def completions(request: web.Request) -> web.StreamResponse:
    return await generate(request, parse(CompletionBody, await request.read()))


async def chat_completions(request: web.Request) -> web.StreamResponse:
    return await generate(request, parse(ChatBody, await request.read()))


async def generate(request: web.Request, body: GenerationBody) -> web.StreamResponse:
    service = request.app[SERVICE]
    received_s, request_id = time.monotonic(), request_id_of(request)
    service.check_ready()
    service.check_model(body.model)
    answer = Answer("chat" if isinstance(body, ChatBody) else "completion", request_id, service.model)
    streams, wake = await service.open_streams(body, request_id, received_s)
    try:
        await wait_accepted(streams, wake)
        if body.stream:
            return await send_stream(request, answer, streams, wake, body.include_usage)
        return await send_whole(answer, streams, wake)
    finally:
        service.close_streams(streams)


async def send_whole(answer: Answer, streams: list[SequenceStream], wake: asyncio.Event) -> web.Response:
    texts = [""] * len(streams)
    async for index, delta in deltas(streams, wake):
        texts[index] += delta.text
    return json_answer(answer.whole(texts, streams), headers={"X-Request-Id": answer.request_id})


async def send_stream(
    request: web.Request,
    answer: Answer,
    streams: list[SequenceStream],
    wake: asyncio.Event,
    include_usage: bool,
) -> web.StreamResponse:
    """Server-sent events. A failure in mid-stream is an error event with no `[DONE]` after it."""
    response = web.StreamResponse(
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Request-Id": answer.request_id}
    )
    response.content_type = "text/event-stream"
    response.charset = "utf-8"
    await response.prepare(request)
    begun: set[int] = set()
    with suppress(ConnectionError, TimeoutError):  # the client is gone or takes nothing: it is owed no more
        try:
            async for index, delta in deltas(streams, wake):
                await send_event(response, answer.chunk(index, delta, streams[index], first=index not in begun))
                begun.add(index)
            if include_usage:
                await send_event(response, answer.usage_chunk(streams))
            await write(response, b"data: [DONE]\n\n")
        except ApiError as error:
            await send_event(response, error.body())
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            log.exception("the stream %s failed", answer.request_id)
            await send_event(response, SERVER_FAULT.body())
        await response.write_eof()
    return response


async def send_event(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await write(response, b"data: " + dump(event) + b"\n\n")


async def write(response: web.StreamResponse, data: bytes) -> None:
    """Waits for a slow client, but not for ever. Raises ConnectionError or TimeoutError."""
    async with asyncio.timeout(WRITE_TIMEOUT_S):
        await response.write(data)


async def list_models(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    card: dict[str, Any] = {
        "id": service.model,
        "object": "model",
        "created": service.created_s,
        "owned_by": "lab",
    }
    if service.facts is not None:
        card["max_model_len"] = service.facts.context_len
    return json_answer({"object": "list", "data": [card]})


async def health(request: web.Request) -> web.Response:
    """200 once requests are taken; else 503 with the phase."""
    service = request.app[SERVICE]
    body = {
        "status": "ok" if service.ready else "unavailable",
        "phase": service.current_phase,
        "model": service.model,
    }
    return json_answer(body, 200 if service.ready else 503)


async def metrics(request: web.Request) -> web.Response:
    return web.Response(
        body=request.app[SERVICE].metrics.render(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def lab_steps(request: web.Request) -> web.Response:
    """Steps with an index above `after` (0: from the first), oldest first, what the engine holds now, and whose the KV
    blocks were a moment ago (null before the first step)."""
    service = request.app[SERVICE]
    after = int_query(request, "after", 0, 0, 2**63)
    limit = int_query(request, "limit", 1000, 1, MAX_STEPS_PER_PAGE)
    page = service.steps.read(after, limit)
    stats = service.engine.stats
    return json_answer(
        {
            "steps": [step_fields(values) for values in page.steps],
            "next": page.next,
            "dropped": page.dropped,
            "now_s": time.monotonic(),
            "now": {name: getattr(stats, name) for name in stats.__slots__},
            "kv_blocks": service.engine.kv_blocks.model_dump() if service.engine.kv_blocks else None,
            "in_flight": service.engine.in_flight,
        }
    )


async def lab_facts(request: web.Request) -> web.Response:
    """Provenance of this server: what the engine says it runs on."""
    _, ready = request.app[SERVICE].check_ready()
    return json_answer({"model": request.app[SERVICE].model, "max_model_len": ready.context_len, **ready.facts})


def int_query(request: web.Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,20}", text) or not low <= int(text) <= high:
        raise bad_field(name, f"must be a whole number from {low} to {high} (got {text[:40]!r})")
    return int(text)


def build_app(service: Service) -> web.Application:
    app = web.Application(middlewares=[openai_errors], client_max_size=MAX_BODY_BYTES)
    app[SERVICE] = service
    app.add_routes(
        [
            web.post("/v1/completions", completions),
            web.post("/v1/chat/completions", chat_completions),
            web.get("/v1/models", list_models),
            web.get("/health", health),
            web.get("/metrics", metrics),
            web.get("/lab/steps", lab_steps),
            web.get("/lab/facts", lab_facts),
        ]
    )
    return app
