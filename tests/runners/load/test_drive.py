"""The load over HTTP against servers that misbehave: each failure is a record, and the load always ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from runners.events import RequestRecord, Sample
from runners.load.drive import LoadResult, drive
from runners.load.http import Target
from runners.load.plan import RequestPlan
from runners.load.planned import LoadPlan
from runners.load.prompts import SyntheticPrompts
from runners.load.sending import GONE_AFTER_REFUSALS
from runners.spec import WorkloadSpec

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Lines = list[dict[str, Any]]
NOW = "the server's clock when the event is sent"


def make_plan(**changes: Any) -> RequestPlan:
    fields: dict[str, Any] = {
        "kind": "synthetic",
        "arrival": {"kind": "closed", "max_concurrency": 2},
        "input_len": {"dist": "fixed", "tokens": 6},
        "output_len": {"dist": "fixed", "tokens": 4},
        "num_requests": 4,
        "warmup": {"num_requests": 0},
        **changes,
    }
    return RequestPlan(WorkloadSpec.model_validate(fields), 1, SyntheticPrompts(1, range(100)))


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/completions", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def load(url: str, plan: LoadPlan, lines: Lines, timeout_s: float = 10.0) -> LoadResult:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as http:
        target = Target(http, url, "tiny", timeout_s, time.monotonic, time.monotonic())
        return await drive(target, plan, lines.append)


async def load_against(handler: Handler, plan: LoadPlan, timeout_s: float = 10.0) -> tuple[LoadResult, Lines]:
    lines: Lines = []
    async with serve(handler) as url:
        return await load(url, plan, lines, timeout_s), lines


def records(lines: Lines) -> list[RequestRecord]:
    return [line["record"] for line in lines if line["type"] == "request"]


def split_type(line: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return line["type"], {name: value for name, value in line.items() if name != "type"}


def chunk(tokens: int, finish_reason: str | None = None, **more: Any) -> bytes:
    lab: dict[str, Any] = {"tokens": tokens}
    if finish_reason:
        lab |= dict.fromkeys(("queued_s", "scheduled_first_s", "prefill_done_s", "finished_s"), NOW)
        lab |= {"preemptions": 2, "draft_tokens": 0, "accepted_tokens": 0}
    return event({"choices": [{"text": "x" * tokens, "finish_reason": finish_reason}], "lab": lab, **more})


def event(value: Any) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


USAGE = event(
    {
        "choices": [],
        "usage": {"prompt_tokens": 6, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}},
        "lab": {"tokens": 0},
    }
)
DONE = b"data: [DONE]\n\n"
GOOD = (chunk(1), chunk(2), chunk(1, "length"), USAGE, DONE)


async def stream(request: web.Request, pieces: tuple[bytes, ...], pause_s: float = 0.0) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece.replace(json.dumps(NOW).encode(), repr(time.monotonic()).encode()))
        await asyncio.sleep(pause_s)
    await response.write_eof()
    return response


def answering(*pieces: bytes, pause_s: float = 0.0) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await stream(request, pieces, pause_s)

    return handler


async def test_a_request_is_recorded_with_its_times_counts_usage_and_the_servers_side() -> None:
    result, lines = await load_against(answering(*GOOD, pause_s=0.02), make_plan())
    assert [record.index for record in records(lines)] == [0, 1, 2, 3]
    for record in records(lines):
        assert (record.status, record.finish_reason, record.error) == ("ok", "length", None)
        assert record.token_counts == [1, 2, 1] and record.output_tokens == record.target_output_tokens == 4
        assert (record.input_tokens, record.cached_tokens, record.preemptions) == (6, 5, 2)
        assert record.scheduled_s <= record.sent_s <= (record.first_token_s or 0.0)
        assert record.token_times_s == sorted(record.token_times_s)
        assert record.finished_s == record.token_times_s[-1]
        assert record.sent_s <= (record.queued_s or 0.0) <= record.finished_s
    assert result.window_start_s is not None and result.window_end_s is not None
    assert result.window_end_s >= max(record.finished_s or 0.0 for record in records(lines))


async def test_lines_come_in_order_and_ticks_make_valid_samples() -> None:
    _, lines = await load_against(answering(*GOOD, pause_s=0.1), make_plan(warmup={"num_requests": 2}))
    phases = [line["phase"] for line in lines if line["type"] == "phase"]
    assert phases == ["warming_up", "measuring", "draining", "done"]
    ticks = [Sample.model_validate(fields) for kind, fields in map(split_type, lines) if kind == "tick"]
    assert len(ticks) >= 3
    assert sum(tick.output_tokens for tick in ticks) == 24
    assert sum(tick.finished for tick in ticks) == 6
    assert ticks[-1].in_flight == 0 and max(tick.in_flight for tick in ticks) == 2
    edge_s = 0.0
    for tick in ticks:
        assert tick.t_s - tick.interval_s == pytest.approx(edge_s)
        edge_s = tick.t_s


async def test_the_server_gets_what_the_plan_says() -> None:
    bodies: list[dict[str, Any]] = []
    ids: list[str | None] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        ids.append(request.headers.get("X-Request-Id"))
        return await stream(request, GOOD)

    plan = make_plan(sampling={"temperature": 0.5, "top_k": 7, "top_p": 0.9, "ignore_eos": True})
    await load_against(handler, plan)
    wanted = {request.request_id: request for request in plan.requests("measured")}
    assert sorted(ids) == sorted(wanted)
    for request_id, body in zip(ids, bodies, strict=True):
        request = wanted[request_id or ""]
        assert tuple(body["prompt"]) == request.prompt_ids
        assert body["max_tokens"] == body["min_tokens"] == 4 and body["ignore_eos"] is True
        assert (body["temperature"], body["top_k"], body["top_p"]) == (0.5, 7, 0.9)
        assert body["seed"] == request.params.seed and body["stream"] is True
        assert body["stream_options"] == {"include_usage": True}


async def test_a_user_keeps_its_connection_from_one_request_to_the_next() -> None:
    connections: set[Any] = set()

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        connections.add(request.transport.get_extra_info("peername"))
        return await stream(request, GOOD)

    _, lines = await load_against(handler, make_plan(num_requests=20))
    assert {record.status for record in records(lines)} == {"ok"} and len(records(lines)) == 20
    assert len(connections) == 2


async def test_what_comes_after_done_does_not_count() -> None:
    _, lines = await load_against(answering(*GOOD, chunk(3), b"data: {not json}\n\n"), make_plan(num_requests=2))
    assert [(record.status, record.output_tokens) for record in records(lines)] == [("ok", 4)] * 2


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ((chunk(1), chunk(1)), "without [DONE]"),
        ((chunk(1), chunk(1), DONE), "without a finish_reason"),
        ((chunk(0, "stop"), DONE), "without a token"),
        ((chunk(1), event({"error": {"message": "the engine ended", "type": "server_error"}})), "the engine ended"),
        ((chunk(1), b"data: {not json}\n\n"), "not a completion chunk"),
        ((chunk(1), event([1, 2])), "not a completion chunk"),
        ((chunk(1), event({"choices": [], "lab": {"tokens": "many"}})), "not a completion chunk"),
        ((b"data: \xff\xfe\n\n",), "not UTF-8"),
    ],
)
async def test_a_broken_stream_is_an_error_of_its_request(pieces: tuple[bytes, ...], message: str) -> None:
    result, lines = await load_against(answering(*pieces), make_plan(num_requests=2))
    assert [record.status for record in records(lines)] == ["error", "error"]
    for record in records(lines):
        assert message in (record.error or "")
        assert record.finished_s is None and record.output_tokens == sum(record.token_counts)
    assert result.client["server_gone"] is False


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda: web.json_response({"error": {"message": "it is full"}}, status=503), "HTTP 503: it is full"),
        (lambda: web.Response(text="oops", status=500), "HTTP 500: oops"),
        (lambda: web.json_response({"choices": []}), "application/json, not text/event-stream"),
    ],
)
async def test_a_refusal_is_recorded_with_its_status_and_message(
    answer: Callable[[], web.Response], message: str
) -> None:
    async def handler(request: web.Request) -> web.Response:
        return answer()

    _, lines = await load_against(handler, make_plan(num_requests=2))
    assert [message in (record.error or "") for record in records(lines)] == [True, True]


async def test_a_connection_that_drops_in_mid_stream_is_an_error_of_its_request() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(chunk(1))
        assert request.transport is not None
        request.transport.abort()
        return response

    _, lines = await load_against(handler, make_plan(num_requests=2))
    assert [(record.status, record.token_counts) for record in records(lines)] == [("error", [1])] * 2


async def test_a_request_that_takes_too_long_is_a_timeout_and_keeps_what_arrived() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(chunk(1))
        await asyncio.Event().wait()
        return response

    _, lines = await load_against(handler, make_plan(num_requests=2), timeout_s=0.2)
    assert [(record.status, record.output_tokens) for record in records(lines)] == [("timeout", 1)] * 2


async def test_a_server_that_takes_no_connections_ends_the_load_early() -> None:
    async with serve(answering(*GOOD)) as url:
        pass
    lines: Lines = []
    result = await load(url, make_plan(num_requests=None, duration_s=3600.0, warmup={"num_requests": 2}), lines)
    assert result.client["server_gone"] is True
    failed = records(lines)
    assert len(failed) >= GONE_AFTER_REFUSALS and {record.status for record in failed} == {"error"}
    assert lines[-1] == {"type": "phase", "phase": "done", "t_s": lines[-1]["t_s"]}


async def test_an_open_loop_keeps_its_schedule_when_the_server_stalls() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await stream(request, GOOD, pause_s=0.2)

    plan = make_plan(arrival={"kind": "open", "request_rate": 50.0}, num_requests=20)
    result, lines = await load_against(handler, plan)
    arrivals = plan.arrivals("measured")
    assert arrivals is not None
    by_index = sorted(records(lines), key=lambda record: record.index)
    assert result.window_start_s is not None
    for record, offset_s in zip(by_index, arrivals, strict=False):
        assert record.scheduled_s - result.window_start_s == pytest.approx(offset_s, abs=0.05)
        assert record.sent_s >= record.scheduled_s
    # Far more were in flight at once than a loop that waits for answers would have had.
    assert max(line["in_flight"] for line in lines if line["type"] == "tick") > 8
    assert result.client["late_share"] is not None


async def test_a_timed_closed_loop_sends_until_its_time_is_up_and_drains() -> None:
    plan = make_plan(num_requests=None, duration_s=0.6)
    result, lines = await load_against(answering(*GOOD, pause_s=0.01), plan)
    assert result.window_start_s is not None and result.window_end_s is not None
    assert result.window_end_s - result.window_start_s == pytest.approx(0.6)
    assert len(records(lines)) > 4
    assert {record.status for record in records(lines)} == {"ok"}
    assert all(record.scheduled_s < result.window_end_s for record in records(lines))


async def test_a_cancelled_load_records_what_was_in_flight_and_says_done() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    lines: Lines = []
    async with serve(handler) as url:
        task = asyncio.create_task(load(url, make_plan(), lines))
        while not any(line.get("in_flight") == 2 for line in lines):
            await asyncio.wait({task}, timeout=0.02)
            assert not task.done()
        task.cancel()
        result = await task
    assert result.client["cancelled"] is True
    assert [record.status for record in records(lines)] == ["cancelled"] * 2
    assert lines[-1]["phase"] == "done" and result.window_end_s is not None


async def test_warm_up_has_wholly_ended_before_a_measured_request_is_sent() -> None:
    plan = make_plan(warmup={"num_requests": 3})
    result, lines = await load_against(answering(*GOOD, pause_s=0.02), plan)
    warmup = [record for record in records(lines) if record.phase == "warmup"]
    measured = [record for record in records(lines) if record.phase == "measured"]
    assert len(warmup) == 3 and len(measured) == 4
    assert result.window_start_s is not None
    assert max(record.finished_s or 0.0 for record in warmup) <= result.window_start_s
    assert min(record.sent_s for record in measured) >= result.window_start_s
