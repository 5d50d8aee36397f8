"""POST /v1/completions and /v1/chat/completions. A handler lives as long as its client: aiohttp cancels it when the
connection goes, and its `finally` gives the sequences back to the engine."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from aiohttp import web

from runners.runtime.serving.answers.chat import ChatAnswer
from runners.runtime.serving.answers.completion import CompletionAnswer
from runners.runtime.serving.answers.frame import Answer
from runners.runtime.serving.errors import ApiError
from runners.runtime.serving.event_writer import EventWriter
from runners.runtime.serving.http_answers import SERVER_FAULT, SERVICE, json_answer, request_id_of
from runners.runtime.serving.protocol.body import parse
from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.serving.protocol.completions import CompletionBody
from runners.runtime.serving.sequence_stream import deltas, wait_accepted, wait_finished

log = logging.getLogger(__name__)


async def completions(request: web.Request) -> web.StreamResponse:
    return await generate(request, parse(CompletionBody, await request.read()))


async def chat_completions(request: web.Request) -> web.StreamResponse:
    return await generate(request, parse(ChatBody, await request.read()))


async def generate(request: web.Request, body: CompletionBody | ChatBody) -> web.StreamResponse:
    service = request.app[SERVICE]
    received_s, request_id = time.monotonic(), request_id_of(request)
    tokenizer = service.check_ready().tokenizer
    service.check_model(body.model)
    job = await service.open_generation(body, request_id, received_s)
    answer: Answer
    if isinstance(body, ChatBody):
        answer = ChatAnswer(request_id, service.model, job, body, tokenizer)
    else:
        answer = CompletionAnswer(request_id, service.model, job, body, tokenizer)
    try:
        await wait_accepted(job.streams, job.wake)
        if body.stream:
            return await send_stream(request, answer, body.include_usage, service.keep_alive_s)
        return await send_whole(answer)
    finally:
        service.close(job)


async def send_whole(answer: Answer) -> web.Response:
    streams = answer.job.streams
    await wait_finished(streams, answer.job.wake)
    taken = [delta for stream in streams if (delta := stream.take()) is not None]
    return json_answer(answer.whole(taken), headers={"X-Request-Id": answer.request_id})


async def send_stream(
    request: web.Request, answer: Answer, include_usage: bool, keep_alive_s: float
) -> web.StreamResponse:
    """Server-sent events. A failure in mid-stream is an error event with no `[DONE]` after it."""
    response = web.StreamResponse(
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Request-Id": answer.request_id}
    )
    response.content_type = "text/event-stream"
    response.charset = "utf-8"
    await response.prepare(request)
    with suppress(ConnectionError, TimeoutError):  # the client is gone or takes nothing: it is owed no more
        async with EventWriter(response, keep_alive_s) as events:
            await send_events(events, answer, include_usage)
        await response.write_eof()
    return response


async def send_events(events: EventWriter, answer: Answer, include_usage: bool) -> None:
    """Raises ConnectionError or TimeoutError for a client that is gone."""
    try:
        async for index, delta in deltas(answer.job.streams, answer.job.wake):
            await events.send(answer.chunk(index, delta))
        if include_usage:
            await events.send(answer.usage_chunk())
        await events.send_done()
    except ApiError as error:
        await events.send(error.body())
    except (ConnectionError, TimeoutError):
        raise
    except Exception:
        log.exception("the stream %s failed", answer.request_id)
        await events.send(SERVER_FAULT.body())
