"""Conversations, tasks, thinking, classes and stages on a virtual clock: who is sent when, to the bit."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any

import pytest
from test_virtual import play, records, run_spec

from runners.events import AnyEvent, Report, RequestRecord, Status, Step
from runners.load.drive import LoadResult
from runners.metrics import Summary, summarize
from runners.spec import RunSpec, SloSpec

TURNS = {"turns": {"dist": "fixed", "count": 3}, "think_time_s": {"dist": "fixed", "value_s": 1.5}}
TASK = {"calls": {"dist": "fixed", "count": 4}, "tool_time_s": {"dist": "fixed", "value_s": 0.25}, "fan_out": 3}


def conversation(**changes: Any) -> RunSpec:
    return run_spec(
        **{
            "kind": "conversation", "conversation": TURNS, "num_requests": 24, "warmup": {"num_requests": 3}, **changes
        }
    )  # fmt: skip


def by_session(found: list[RequestRecord]) -> dict[str, list[RequestRecord]]:
    ordered = sorted(found, key=lambda record: record.index)
    return {str(name): list(own) for name, own in groupby(ordered, lambda record: record.session)}


def summary_of(spec: RunSpec, result: LoadResult, events: list[AnyEvent]) -> Summary:
    requests = [event for event in events if isinstance(event, RequestRecord)]
    steps = [event for event in events if isinstance(event, Step)]
    report = Report(
        outcome="succeeded", window_start_s=result.window_start_s, window_end_s=result.window_end_s, modelled=True
    )
    return summarize(requests, steps, report, spec)


def test_a_turn_goes_when_the_person_has_thought_and_finds_the_history_in_the_cache() -> None:
    _, events = play(conversation())
    sessions = by_session(records(events))
    assert len(sessions) == 8
    for turns in sessions.values():
        assert [turn.turn for turn in turns] == [1, 2, 3] and turns[0].cached_tokens == 0
        for earlier, later in pairwise(turns):
            assert earlier.finished_s is not None and later.sent_s == earlier.finished_s + 1.5
            # All but the last token of an answer was computed; full blocks of 32 are kept.
            known = (earlier.input_tokens or 0) + (earlier.output_tokens or 0) - 1
            assert later.cached_tokens == known // 32 * 32
            assert (later.input_tokens or 0) > known + 1


def test_a_closed_loop_keeps_as_many_sessions_under_way_as_it_has_users() -> None:
    _, events = play(conversation(arrival={"kind": "closed", "max_concurrency": 2}))
    spans = [(own[0].sent_s, own[-1].finished_s or 0.0) for own in by_session(records(events)).values()]
    for start_s, _ in spans:
        assert sum(one[0] <= start_s < one[1] for one in spans) <= 2
    starts, ends = sorted(start for start, _ in spans), sorted(end for _, end in spans)
    assert starts[2:] == ends[: len(starts) - 2]


def test_open_arrivals_are_beginnings_of_sessions() -> None:
    spec = conversation(arrival={"kind": "open", "request_rate": 2.0})
    _, events = play(spec)
    _, faster = play(spec.model_copy(update={"engine": spec.engine.model_copy(update={"weights": "int8"})}))
    offsets = []
    for told in (events, faster):
        firsts = [own[0].sent_s for own in by_session(records(told)).values()]
        offsets.append([later - earlier for earlier, later in pairwise(firsts)])
    assert offsets[0] == pytest.approx(offsets[1])


def test_nothing_of_a_session_is_sent_when_the_time_is_up() -> None:
    spec = conversation(num_requests=None, duration_s=4.0)
    result, events = play(spec)
    assert result.window_end_s is not None
    measured = records(events)
    assert all(record.sent_s < result.window_end_s for record in measured)
    cut = [own for own in by_session(measured).values() if len(own) < 3]
    assert cut
    found = summary_of(spec, result, events).metrics
    assert found["sessions_ok"].value == len(by_session(measured)) - len(cut)


def test_branches_go_side_by_side_and_the_join_when_the_last_has_ended() -> None:
    _, events = play(conversation(kind="agent", agent=TASK, num_requests=24))
    for calls in by_session(records(events)).values():
        turns = [list(own) for _, own in groupby(calls, lambda record: record.turn)]
        assert [len(turn) for turn in turns] == [1, 3, 3, 1]
        for earlier, later in pairwise(turns):
            ended_s = max(record.finished_s or 0.0 for record in earlier)
            assert {record.sent_s for record in later} == {ended_s + 0.25}
        known = (turns[0][0].input_tokens or 0) + (turns[0][0].output_tokens or 0) - 1
        assert {record.cached_tokens for record in turns[1]} == {known // 32 * 32}


def test_a_session_has_its_whole_time_and_the_history_is_no_contamination() -> None:
    spec = conversation().model_copy(update={"slo": SloSpec(e2el_s=100.0)})
    result, events = play(spec)
    found = summary_of(spec, result, events)
    times = [(own[-1].finished_s or 0.0) - own[0].sent_s for own in by_session(records(events)).values()]
    session_time = found.metrics["session_time"]
    assert session_time.n == 8 and session_time.value == pytest.approx(sorted(times)[3] / 2 + sorted(times)[4] / 2)
    assert found.metrics["sessions_ok"].value == 8 and found.metrics["session_goodput_share"].value == 1.0
    assert "cache_contaminated" not in {reason.code for reason in found.reasons}
    assert "no_steady_state" not in {reason.code for reason in found.reasons}


def test_a_turn_too_long_for_the_model_fails_and_ends_its_session_alone() -> None:
    long = {"dist": "fixed", "tokens": 3_000}
    _, events = play(conversation(input_len=long, num_requests=9))
    sessions = by_session(records(events))
    assert len(sessions) == 3
    for turns in sessions.values():
        assert [turn.status for turn in turns] == ["ok", "ok", "error"]
        assert "tokens" in (turns[2].error or "")


def test_thinking_is_told_apart_from_the_answer() -> None:
    spec = run_spec(thinking={"factor": 3.0}, output_len={"dist": "fixed", "tokens": 10}, num_requests=20)
    result, events = play(spec)
    for record in records(events):
        assert (record.thinking_tokens, record.output_tokens) == (30, 40)
    found = summary_of(spec, result, events).metrics
    waits = sorted(record.token_times_s[30] - record.sent_s for record in records(events))
    assert found["time_to_answer"].value == pytest.approx((waits[9] + waits[10]) / 2)
    assert found["thinking_share"].value == 0.75
    assert found["answer_throughput"].value == pytest.approx((found["output_throughput"].value or 0.0) / 4)


def mixed(policy: str) -> tuple[Summary, RunSpec]:
    classes = [
        {"name": "chat", "share": 0.5, "priority": -1, "slo": {"ttft_s": 0.02}},
        {"name": "batch", "share": 0.5, "priority": 1, "slo": {"e2el_s": 1000.0}},
    ]
    spec = run_spec(
        engine={"max_num_seqs": 2, "scheduler": {"policy": policy}}, classes=classes, num_requests=80,
        arrival={"kind": "closed", "max_concurrency": 12},
    )  # fmt: skip
    return summary_of(spec, *play(spec)), spec


def test_a_class_of_a_lower_number_goes_first_where_the_policy_heeds_priority() -> None:
    first_come, _ = mixed("fcfs")
    by_priority, _ = mixed("priority")

    def waits(found: Summary) -> tuple[float, float]:
        return tuple(found.classes[name]["queue_wait"].value or 0.0 for name in ("chat", "batch"))  # type: ignore

    chat, batch = waits(first_come)
    assert chat == pytest.approx(batch, rel=0.5)
    chat, batch = waits(by_priority)
    assert chat < batch / 3


def test_each_class_is_held_to_its_own_objective() -> None:
    found, spec = mixed("fcfs")
    batch, chat = found.classes["batch"], found.classes["chat"]
    assert batch["goodput_share"].value == 1.0 and (chat["goodput_share"].value or 0.0) < 1.0
    assert found.metrics["goodput"].value == pytest.approx(
        (batch["goodput"].value or 0.0) + (chat["goodput"].value or 0.0)
    )
    assert (batch["requests_ok"].value or 0) + (chat["requests_ok"].value or 0) == 80
    assert list(found.as_json()["classes"]) == [one.name for one in spec.workload.classes]


def stages(*levels: dict[str, Any]) -> dict[str, Any]:
    return {"arrival": {"kind": "stages", "stages": list(levels)}}


def test_users_of_a_ramp_begin_at_their_exact_times_and_stop_with_the_last_stage() -> None:
    load = stages(
        {"duration_s": 4, "max_concurrency": 4, "ramp": "linear"},
        {"duration_s": 2, "max_concurrency": 4},
        {"duration_s": 2, "max_concurrency": 1},
    )
    result, events = play(run_spec(**load))
    start_s = result.window_start_s or 0.0
    assert result.window_end_s == start_s + 8
    measured = sorted(records(events), key=lambda record: record.sent_s)

    def in_flight(t_s: float) -> int:
        return sum(one.sent_s <= start_s + t_s < (one.finished_s or 0.0) for one in measured)

    assert [in_flight(t_s) for t_s in (0.5, 1.5, 2.5, 3.5, 5.0, 7.5)] == [0, 1, 2, 3, 4, 1]
    assert measured[0].sent_s == start_s + 1.0
    assert all(record.sent_s < start_s + 8 for record in measured)
    told = {event.phase: event.t_s for event in events if isinstance(event, Status)}
    assert told["draining"] == start_s + 8


def test_every_stage_has_its_figures_by_when_its_requests_were_due() -> None:
    load = stages({"duration_s": 3, "request_rate": 20}, {"duration_s": 3, "request_rate": 60})
    spec = run_spec(**load)
    result, events = play(spec)
    found = summary_of(spec, result, events)
    assert [(stage.level, stage.end_s - stage.start_s) for stage in found.stages] == [(20, 3), (60, 3)]
    counts = [stage.metrics["requests_ok"].value or 0 for stage in found.stages]
    assert sum(counts) == found.metrics["requests_ok"].value and counts[1] > 1.5 * counts[0]
    assert "no_steady_state" not in {reason.code for reason in found.reasons}


def test_a_stage_beyond_what_the_engine_can_do_has_no_steady_state() -> None:
    load = stages({"duration_s": 2, "request_rate": 10}, {"duration_s": 2, "request_rate": 2_000})
    spec = run_spec(engine={"max_num_seqs": 1}, **load)
    result, events = play(spec)
    found = summary_of(spec, result, events)
    (reason,) = [one for one in found.reasons if one.code == "no_steady_state"]
    # It has no more throughput than the engine gives, however much was due.
    ended = [one for one in records(events) if found.stages[1].start_s <= (one.finished_s or 0) < found.stages[1].end_s]
    assert found.stages[1].metrics["request_throughput"].value == pytest.approx(len(ended) / 2)
    assert len(ended) < (found.stages[1].metrics["requests_ok"].value or 0) / 2
    assert "stage 2 (2000 req/s)" in reason.message
