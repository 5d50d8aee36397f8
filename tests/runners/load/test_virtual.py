"""A whole load on a virtual clock, over the real engine and the modelled executor."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from modelled_engine import make_executor

from runners import models
from runners.chips import load_catalog
from runners.events import AnyEvent, RequestRecord, Sample, Status, Step
from runners.load.drive import LoadResult
from runners.load.virtual import TooLong, run
from runners.modelled.executor import build_engine
from runners.modelled.fleet import one_engine
from runners.spec import CostSpec, EngineSpec, ModelRef, OpenArrival, PlacementSpec, RunSpec, SloSpec, WorkloadSpec

H100 = next(chip for chip in load_catalog() if chip.chip_id == "h100-sxm")
MODEL = models.get("smollm2-135m-instruct")
WALL_S = 1_700_000_000.0


def run_spec(seed: int = 3, engine: dict[str, Any] | None = None, **workload: Any) -> RunSpec:
    fields: dict[str, Any] = {
        "kind": "text",
        "arrival": {"kind": "closed", "max_concurrency": 4},
        "input_len": {"dist": "uniform", "min_tokens": 20, "max_tokens": 200},
        "output_len": {"dist": "uniform", "min_tokens": 2, "max_tokens": 40},
        "warmup": {"num_requests": 3},
        **workload,
    }
    return RunSpec(
        run_id=1,
        experiment_id=1,
        trial_index=0,
        repeat=0,
        seed=seed,
        settings={},
        model=ModelRef(name=MODEL.name, sha256=MODEL.sha256, shape=MODEL.shape),
        chip_id=H100.chip_id,
        engine=EngineSpec.model_validate(engine or {}),
        placement=PlacementSpec(),
        workload=WorkloadSpec.model_validate(fields),
        slo=SloSpec(),
        cost=CostSpec(),
        time_limit_s=900,
        code_revision="test",
    )


def play(spec: RunSpec) -> tuple[LoadResult, list[AnyEvent]]:
    executor = make_executor(H100, spec.model.shape, spec.engine)
    events: list[AnyEvent] = []
    engine = build_engine(executor, spec.engine)
    result = run(spec, one_engine(engine, executor.clock), events.extend, wall=lambda: WALL_S)
    engine.check_integrity()
    return result, events


def records(events: list[AnyEvent], phase: str = "measured") -> list[RequestRecord]:
    return [event for event in events if isinstance(event, RequestRecord) and event.phase == phase]


def test_a_closed_loop_sends_every_request_once_and_keeps_its_users_busy() -> None:
    result, events = play(run_spec(num_requests=30))
    measured = records(events)
    assert sorted(record.index for record in measured) == list(range(3, 33))
    assert all(record.status == "ok" and record.output_tokens == record.target_output_tokens for record in measured)
    assert all(len(record.token_times_s) == record.output_tokens for record in measured)
    changes = sorted([(r.sent_s, 1) for r in measured] + [(r.finished_s, -1) for r in measured])
    levels = list(itertools.accumulate(change for _, change in changes))
    assert max(levels) == 4
    assert result.window_end_s == max(record.finished_s for record in measured)


def test_the_next_request_of_a_user_goes_when_its_last_has_ended() -> None:
    _, events = play(run_spec(num_requests=9, arrival={"kind": "closed", "max_concurrency": 1}))
    measured = sorted(records(events), key=lambda record: record.index)
    for earlier, later in itertools.pairwise(measured):
        assert later.scheduled_s == later.sent_s == earlier.finished_s


def test_an_open_loop_sends_on_schedule_whatever_is_still_running() -> None:
    def offsets_and_waits(max_num_seqs: int) -> tuple[list[float], list[float]]:
        arrival = {"kind": "open", "request_rate": 4000.0}
        result, events = play(run_spec(num_requests=60, arrival=arrival, engine={"max_num_seqs": max_num_seqs}))
        measured = sorted(records(events), key=lambda record: record.index)
        offsets = [record.sent_s - (result.window_start_s or 0.0) for record in measured]
        return offsets, [(record.scheduled_first_s or 0.0) - record.sent_s for record in measured]

    fast, fast_waits = offsets_and_waits(max_num_seqs=16)
    slow, slow_waits = offsets_and_waits(max_num_seqs=1)
    assert slow == pytest.approx(fast)
    assert max(slow_waits) > 5 * max(fast_waits)


def test_a_timed_window_lasts_as_long_as_asked_and_then_drains() -> None:
    for arrival in ({"kind": "closed", "max_concurrency": 4}, {"kind": "open", "request_rate": 300.0}):
        result, events = play(run_spec(duration_s=0.6, arrival=arrival))
        assert result.window_start_s is not None and result.window_end_s is not None
        assert result.window_end_s - result.window_start_s == pytest.approx(0.6)
        measured = records(events)
        assert len(measured) > 50
        assert all(record.sent_s < result.window_end_s for record in measured)
        draining = next(event for event in events if isinstance(event, Status) and event.phase == "draining")
        assert draining.t_s == result.window_end_s


def test_warm_up_has_ended_before_the_window_begins() -> None:
    result, events = play(run_spec(num_requests=10, warmup={"num_requests": 9}))
    warmup = records(events, "warmup")
    assert len(warmup) == 9
    assert result.window_start_s is not None
    assert max(record.finished_s for record in warmup) <= result.window_start_s
    assert min(record.sent_s for record in records(events)) >= result.window_start_s


def test_the_phases_come_in_order_with_their_times() -> None:
    result, events = play(run_spec(num_requests=10))
    phases = [event for event in events if isinstance(event, Status)]
    assert [event.phase for event in phases] == ["warming_up", "measuring", "draining", "done"]
    times = [event.t_s for event in phases]
    assert times == sorted(times) and times[0] == 0.0 and times[1] == result.window_start_s
    assert {event.wall_s for event in phases} == {WALL_S}


def test_samples_cover_the_run_without_a_gap_and_add_up_to_the_records() -> None:
    result, events = play(run_spec(duration_s=2.3, arrival={"kind": "open", "request_rate": 3.0}))
    samples = [event for event in events if isinstance(event, Sample)]
    steps = [event for event in events if isinstance(event, Step)]
    assert len(samples) >= 5
    edge_s = 0.0
    for sample in samples:
        assert sample.t_s - sample.interval_s == pytest.approx(edge_s)
        assert 0 < sample.interval_s <= 0.25 + 1e-9
        edge_s = sample.t_s
    everything = records(events) + records(events, "warmup")
    assert sum(sample.output_tokens for sample in samples) == sum(r.output_tokens or 0 for r in everything)
    assert sum(sample.input_tokens for sample in samples) == sum(r.input_tokens or 0 for r in everything)
    assert sum(sample.finished for sample in samples) == len(everything)
    assert sum(sample.steps for sample in samples) == len(steps)
    assert sum(sample.busy_s for sample in samples) == pytest.approx(sum(step.duration_s for step in steps))
    assert any(sample.steps == 0 and sample.running_mean is None for sample in samples)
    assert {sample.phase for sample in samples} == {"warmup", "measured"}
    for sample in samples:
        start_s = result.window_start_s or 0.0
        assert (sample.phase == "warmup") == (sample.t_s <= start_s)


def test_steps_are_numbered_and_never_overlap() -> None:
    _, events = play(run_spec(num_requests=20))
    steps = [event for event in events if isinstance(event, Step)]
    assert [step.index for step in steps] == list(range(1, len(steps) + 1))
    for earlier, later in itertools.pairwise(steps):
        assert later.start_s >= earlier.start_s + earlier.duration_s - 1e-12


def test_the_same_seed_gives_the_same_events_and_another_seed_others() -> None:
    assert play(run_spec(num_requests=12)) == play(run_spec(num_requests=12))
    assert play(run_spec(num_requests=12)) != play(run_spec(seed=4, num_requests=12))


def test_no_prompt_of_a_run_finds_another_in_the_prefix_cache() -> None:
    _, events = play(run_spec(num_requests=40, engine={"block_size": 8}))
    assert {record.cached_tokens for record in records(events)} == {0}


def test_a_request_that_the_engine_refuses_is_an_error_of_its_own_and_the_load_goes_on() -> None:
    spec = run_spec(
        num_requests=20,
        input_len={"dist": "uniform", "min_tokens": 100, "max_tokens": 400},
        engine={"max_num_batched_tokens": 256, "scheduler": {"chunked_prefill": False}},
    )
    _, events = play(spec)
    by_status = {status: [r for r in records(events) if r.status == status] for status in ("ok", "error")}
    assert len(by_status["ok"]) + len(by_status["error"]) == 20
    assert by_status["ok"] and by_status["error"]
    assert all((r.input_tokens or 0) > 256 and "max_num_batched_tokens" in (r.error or "") for r in by_status["error"])
    assert sum(event.errors for event in events if isinstance(event, Sample)) == len(
        by_status["error"] + [r for r in records(events, "warmup") if r.status == "error"]
    )


def test_a_clock_that_does_not_stand_at_zero_is_refused() -> None:
    spec = run_spec(num_requests=1)
    executor = make_executor(H100, spec.model.shape, spec.engine)
    executor.clock.advance(1.0)
    with pytest.raises(ValueError, match=r"clock: stands at 1\.0 s; allowed: 0"):
        run(spec, one_engine(build_engine(executor, spec.engine), executor.clock), lambda events: None)


def test_a_load_that_would_take_longer_than_a_run_may_is_refused_before_its_samples_are_told() -> None:
    spec = run_spec(arrival={"kind": "open", "request_rate": 1.0}, num_requests=2, warmup={"num_requests": 0})
    slow = spec.workload.model_copy(update={"arrival": OpenArrival(kind="open", request_rate=1e-9)})
    spec = spec.model_copy(update={"workload": slow})
    executor = make_executor(H100, spec.model.shape, spec.engine)
    events: list[AnyEvent] = []
    with pytest.raises(TooLong, match="at most 604,800 s") as raised:
        run(spec, one_engine(build_engine(executor, spec.engine), executor.clock), events.extend)
    assert raised.value.retry is False
    assert len(events) < 10
