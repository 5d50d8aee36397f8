"""Sessions over HTTP: what follows an answer, what does not follow a failure, and when the load is over."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web
from test_drive import DONE, Handler, event, load_against, make_plan, records, stream

from runners.load.plan import make_plan as plan_of
from runners.load.planned import LoadPlan
from runners.load.prompts import SyntheticPrompts
from runners.spec import WorkloadSpec

ANSWER = [901, 902, 903, 904]
TALK = {"turns": {"dist": "fixed", "count": 2}, "think_time_s": {"dist": "fixed", "value_s": 0.05}}
TASK = {"calls": {"dist": "fixed", "count": 3}, "fan_out": 2, "tool_result_tokens": {"dist": "fixed", "tokens": 3}}


def sessions(**changes: Any) -> LoadPlan:
    base = make_plan().workload.model_dump(mode="json")
    fields = base | {"kind": "conversation", "conversation": TALK, "num_requests": 8} | changes
    return plan_of(WorkloadSpec.model_validate(fields), 1, SyntheticPrompts(1, range(100)))


def remembering(bodies: list[dict[str, Any]], ids: bool = True, fail_longer_than: int = 10**9) -> Handler:
    """Answers with ANSWER; refuses prompts that are too long."""

    async def handler(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        bodies.append(body)
        if len(body["prompt"]) > fail_longer_than:
            return web.json_response({"error": {"message": "too long"}}, status=400)
        told = {"text": "x" * 4, "finish_reason": "length"} | ({"token_ids": ANSWER} if ids else {})
        return await stream(request, (event({"choices": [told], "lab": {"tokens": 4}}), DONE))

    return handler


async def test_the_next_turn_holds_the_answer_that_was_given_and_waits_for_the_person() -> None:
    bodies: list[dict[str, Any]] = []
    _, lines = await load_against(remembering(bodies), sessions(arrival={"kind": "closed", "max_concurrency": 1}))
    found = records(lines)
    assert [(one.session, one.turn) for one in found] == [(f"session-{i}", turn) for i in range(4) for turn in (1, 2)]
    for first, second in zip(bodies[::2], bodies[1::2], strict=True):
        assert second["prompt"][:10] == first["prompt"] + ANSWER and len(second["prompt"]) == 16
        # Only an answer that a later prompt holds is asked for by its ids.
        assert first["return_token_ids"] is True and "return_token_ids" not in second
    for earlier, later in zip(found[::2], found[1::2], strict=True):
        assert later.scheduled_s >= (earlier.finished_s or 0.0) + 0.05 and later.sent_s >= later.scheduled_s


async def test_a_server_that_tells_no_ids_gets_others_of_the_same_length() -> None:
    bodies: list[dict[str, Any]] = []
    await load_against(remembering(bodies, ids=False), sessions(arrival={"kind": "closed", "max_concurrency": 1}))
    assert [len(body["prompt"]) for body in bodies] == [6, 16] * 4
    assert all(second["prompt"][:6] == first["prompt"] for first, second in zip(bodies[::2], bodies[1::2], strict=True))


async def test_nothing_follows_a_request_that_failed_and_the_load_goes_on() -> None:
    bodies: list[dict[str, Any]] = []
    talk = TALK | {"turns": {"dist": "fixed", "count": 3}}
    _, lines = await load_against(remembering(bodies, fail_longer_than=15), sessions(conversation=talk, num_requests=6))
    assert sorted((one.turn, one.status) for one in records(lines)) == [
        (1, "ok"),
        (1, "ok"),
        (2, "error"),
        (2, "error"),
    ]
    phases = [line["phase"] for line in lines if line["type"] == "phase"]
    assert phases == ["warming_up", "measuring", "draining", "done"]


async def test_branches_go_side_by_side_and_the_join_holds_them_all() -> None:
    bodies: list[dict[str, Any]] = []
    one = {"kind": "agent", "agent": TASK, "num_requests": 4, "arrival": {"kind": "closed", "max_concurrency": 1}}
    _, lines = await load_against(remembering(bodies), sessions(**one))
    assert [len(body["prompt"]) for body in bodies] == [6, 13, 13, 27]
    found = sorted(records(lines), key=lambda record: record.index)
    assert found[3].sent_s >= max(found[1].finished_s or 0.0, found[2].finished_s or 0.0)


async def test_sessions_of_an_open_loop_go_on_until_the_time_is_up() -> None:
    bodies: list[dict[str, Any]] = []
    endless = TALK | {"turns": {"dist": "fixed", "count": 500}, "think_time_s": {"dist": "fixed", "value_s": 0.02}}
    plan = sessions(
        conversation=endless, num_requests=None, duration_s=1.0, arrival={"kind": "open", "request_rate": 20.0}
    )
    result, lines = await load_against(remembering(bodies), plan)
    assert result.window_start_s is not None and result.window_end_s == result.window_start_s + 1.0
    found = records(lines)
    assert max(one.turn or 0 for one in found) > 1
    assert all(one.scheduled_s < result.window_end_s for one in found)


async def test_stages_of_users_end_with_the_last_stage() -> None:
    bodies: list[dict[str, Any]] = []
    staged = {"kind": "stages", "stages": [{"duration_s": 0.2, "max_concurrency": 1},
                                           {"duration_s": 0.2, "max_concurrency": 3}]}  # fmt: skip
    plan = sessions(kind="synthetic", arrival=staged, num_requests=None)
    result, lines = await load_against(remembering(bodies), plan)
    assert result.window_start_s is not None and result.window_end_s is not None
    assert result.window_end_s == result.window_start_s + 0.4
    assert all(one.scheduled_s < result.window_end_s for one in records(lines)) and bodies
