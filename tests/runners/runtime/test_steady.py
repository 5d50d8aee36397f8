"""Steps taken together leave the same events, times, tokens, blocks and cache as steps taken one by one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference_executor import ReferenceExecutor
from steady_executor import VOCAB_SIZE, VirtualExecutor

from runners.runtime.engine import Engine, StepOutput
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import ReceivedKV, SamplingParams
from runners.runtime.steady import SteadyOutput
from runners.runtime.tiers import PrefixTier

PROMPT = (1, 2, 3, 4, 5)
PARAMS = SamplingParams(max_tokens=20, ignore_eos=True)


@dataclass(frozen=True)
class Request:
    arrives_s: float
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    priority: int = 0
    received: ReceivedKV | None = None


@dataclass
class Drive:
    """One engine under one load, as a client in virtual time drives it. With `at_a_time`, steps are planned together
    and taken so many at a time."""

    engine: Engine
    coalesce: bool
    at_a_time: int | None = None
    outputs: list[StepOutput] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)

    def serve(self, requests: list[Request], ticks_s: float = inf) -> None:
        """Send each request when it is due. Every `ticks_s` somebody looks at who holds what, if only for a moment."""
        executor, tick_s = self.engine.executor, ticks_s
        assert isinstance(executor, VirtualExecutor)
        due = sorted(enumerate(requests), key=lambda item: (item[1].arrives_s, item[0]))
        while due or self.engine.has_work:
            while due and due[0][1].arrives_s <= executor.now_s:
                number, request = due.pop(0)
                self.engine.add(
                    str(number), request.prompt_ids, request.params, request.priority, received=request.received
                )
            while tick_s <= executor.now_s:
                tick_s += ticks_s
            if not self.engine.has_work:
                executor.now_s = due[0][1].arrives_s
            else:
                self.take(min(due[0][1].arrives_s if due else inf, tick_s))

    def take(self, until_s: float) -> None:
        executor = self.engine.executor
        assert isinstance(executor, VirtualExecutor)
        runs = self.run_steady(until_s) if self.coalesce else []
        outputs = []
        for run in runs:
            taken = list(run.outputs(self.engine.numbers))
            assert run.times_s() == [out.step.start_s + out.step.duration_s for out in taken]
            self.runs.append(len(taken))
            outputs.extend(taken)
        if not runs:
            output = self.engine.step()
            assert output is not None
            outputs.append(output)
        executor.now_s = outputs[-1].step.start_s + outputs[-1].step.duration_s
        self.outputs.extend(outputs)
        self.engine.check_integrity()

    def run_steady(self, until_s: float) -> list[SteadyOutput]:
        if self.at_a_time is None:
            run = self.engine.run_steady(until_s)
            return [] if run is None else [run]
        plan, runs = self.engine.plan_steady(until_s), []
        while plan is not None and plan.num_taken < len(plan.timed):
            runs.append(self.engine.take_steady(plan, plan.num_taken + self.at_a_time))
            self.engine.check_integrity()
            if runs[-1].finished:
                break
        return runs


def make_drive(coalesce: bool, num_blocks: int = 64, block_size: int = 4, **config: Any) -> Drive:
    return Drive(Engine(VirtualExecutor(num_blocks, block_size), SchedulerConfig(**config)), coalesce)


def pool_state(engine: Engine) -> tuple[Any, ...]:
    """All that later decisions can depend on."""
    pool = engine._pool
    return (
        pool._free,
        pool._references,
        pool._keys,
        pool._content_ids,
        pool._published,
        list(pool._evictable),
        pool._last_content_id,
        [list(kept.items()) for kept in pool._tiers.content_ids] if pool._tiers is not None else [],
        [(seq.request_id, seq.block_table, seq.num_computed_tokens) for seq in engine._scheduler.running],
        [seq.request_id for seq in engine._scheduler.waiting],
    )


def drive_both(requests: list[Request], ticks_s: float = inf, **config: Any) -> Drive:
    """Serve the load both ways, hold them against each other, and give the one that took steps together."""
    single, steady = make_drive(False, **config), make_drive(True, **config)
    single.serve(requests, ticks_s)
    steady.serve(requests, ticks_s)
    for one, other in zip(single.outputs, steady.outputs, strict=True):
        assert one == other
    assert pool_state(single.engine) == pool_state(steady.engine)
    assert single.engine.executor.now() == steady.engine.executor.now()
    return steady


def test_one_request_is_a_prefill_and_one_run() -> None:
    drive = drive_both([Request(0.0, PROMPT, PARAMS)])
    assert drive.runs == [19]
    assert drive.outputs[-1].tokens[0].finish_reason == "length"
    assert drive.engine.step() is None and drive.engine.run_steady() is None


def test_planned_steps_change_nothing_until_they_are_taken() -> None:
    engine = make_drive(True).engine
    engine.add("a", PROMPT, PARAMS)
    engine.step()
    before = pool_state(engine)
    plan = engine.plan_steady()
    assert plan is not None and len(plan.timed) == 19
    assert pool_state(engine) == before and engine.num_tokens_to_do == 20
    assert len(engine.take_steady(plan, 7).steps) == 7 and engine.num_tokens_to_do == 13
    rest = engine.take_steady(plan, 19)
    assert len(rest.steps) == 12 and rest.finished and not engine.has_work


def test_a_run_ends_with_the_first_sequence_that_ends_and_the_next_begins_at_once() -> None:
    lengths = (8, 12, 12, 17)
    drive = drive_both([Request(0.0, (*PROMPT, length), replace(PARAMS, max_tokens=length)) for length in lengths])
    assert drive.runs == [7, 4, 5]
    assert [len(output.tokens) for output in drive.outputs[-6:]] == [3, 1, 1, 1, 1, 1]


def test_no_step_starts_at_the_time_limit_or_later() -> None:
    engine = make_drive(True).engine
    assert isinstance(engine.executor, VirtualExecutor)
    engine.add("a", PROMPT, PARAMS)
    first = engine.step()
    assert first is not None
    start_s = engine.executor.now_s = first.step.duration_s
    assert engine.run_steady(until_s=start_s) is None
    whole = [start_s]
    for starts in range(5, 9):
        whole.append(whole[-1] + next(engine.executor.decode_steps([starts]))[0])
    run = engine.run_steady(until_s=whole[3])
    assert run is not None
    assert run.times_s() == whole[1:4]
    engine.executor.now_s = whole[3]
    run = engine.run_steady(until_s=whole[3] + 1e-12)
    assert run is not None
    assert run.times_s() == whole[4:5]


def test_a_run_ends_before_a_step_that_would_preempt() -> None:
    requests = [Request(0.0, (*PROMPT, number), PARAMS) for number in range(3)]
    drive = drive_both(requests, num_blocks=12, prefix_cache=False)
    assert sum(output.step.preempted for output in drive.outputs) > 0
    assert len(drive.runs) > 2


def test_while_a_sequence_waits_for_blocks_the_others_run_on_together() -> None:
    requests = [Request(0.0, PROMPT, PARAMS), Request(0.0, tuple(range(60)), replace(PARAMS, max_tokens=4))]
    drive = drive_both(requests, num_blocks=16, block_size=4)
    assert drive.runs == [19, 3]
    assert drive.outputs[1].step.waiting == 1


def test_a_longer_prefix_in_the_cache_lets_its_sequence_in_at_once() -> None:
    """Its 13 tokens don't fit the 12 that a step has left, until the other has filled a block that begins both."""
    answer = tuple(VirtualExecutor(1, 1).decode_tokens(PARAMS, 0, 12))
    requests = [Request(0.0, (1,), PARAMS), Request(0.1, (1, *answer), replace(PARAMS, max_tokens=2))]
    drive = drive_both(requests, max_num_seqs=2, max_num_batched_tokens=13, chunked_prefill=False)
    admitted = drive.outputs[4].step
    assert (admitted.running, admitted.cached_tokens, admitted.prefill_tokens) == (2, 4, 9)


def test_a_stop_token_ends_the_run_and_its_sequence() -> None:
    stops = tuple(VirtualExecutor(1, 1).decode_tokens(PARAMS, 6, 1))
    params = replace(PARAMS, ignore_eos=False, stop_token_ids=stops, min_tokens=4)
    drive = drive_both([Request(0.0, PROMPT, params), Request(0.0, PROMPT[::-1], PARAMS)])
    assert [token.finish_reason for output in drive.outputs for token in output.tokens if token.finish_reason] == [
        "stop",
        "length",
    ]
    assert sum(drive.runs) == 19


def test_a_received_sequence_starts_by_an_ordinary_step_and_goes_on_in_runs() -> None:
    drive = drive_both([Request(0.0, PROMPT, PARAMS, received=ReceivedKV(5, (0,)))])
    assert drive.runs == [18]


@pytest.mark.parametrize(
    "params",
    [
        replace(PARAMS, logprobs=1),
        replace(PARAMS, presence_penalty=0.5),
        replace(PARAMS, bad_token_ids=((1,),)),
    ],
)
def test_a_request_whose_steps_depend_on_more_than_lengths_is_taken_step_by_step(params: SamplingParams) -> None:
    assert drive_both([Request(0.0, PROMPT, params)]).runs == []


def test_an_executor_that_can_not_say_steps_ahead_is_taken_step_by_step() -> None:
    engine = Engine(ReferenceExecutor(16, 4), SchedulerConfig())
    engine.add("a", PROMPT, PARAMS)
    engine.step()
    assert engine.run_steady() is None


def test_events_take_their_indices_when_they_are_asked_for() -> None:
    drive = make_drive(True)
    drive.serve([Request(0.0, PROMPT, replace(PARAMS, max_tokens=2))])
    drive.engine.add("b", PROMPT, PARAMS)
    drive.engine.step()
    run = drive.engine.run_steady()
    assert run is not None
    assert [event.index for event in run.events(iter(range(100, 200)))] == list(range(100, 119))
    assert next(drive.engine.numbers) == 4


@st.composite
def loads(draw: st.DrawFn) -> tuple[list[Request], dict[str, Any]]:
    """Small pools, prompts that are beginnings of one text, answers that repeat: all that can move a block about."""
    block_size, num_blocks = draw(st.integers(1, 4)), draw(st.integers(3, 14))
    slots = block_size * num_blocks
    max_num_seqs = draw(st.integers(1, 5))
    config = {
        "num_blocks": num_blocks,
        "block_size": block_size,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": draw(st.integers(max_num_seqs, max_num_seqs + 12)),
        "prefix_cache": draw(st.booleans()),
        "chunked_prefill": draw(st.booleans()),
        "prefix_tiers": draw(st.sampled_from([(), (), (PrefixTier("host", 2), PrefixTier("remote", 3))])),
    }
    longest = slots if config["chunked_prefill"] else min(slots, config["max_num_batched_tokens"])
    answer = VirtualExecutor(1, 1).decode_tokens(SamplingParams(), 0, slots)
    text = tuple(chain(draw(st.lists(st.integers(0, 1), min_size=1, max_size=3)), answer))[:longest]
    return draw(st.lists(requests_about(text, slots), min_size=1, max_size=7)), config


@st.composite
def requests_about(draw: st.DrawFn, text: tuple[int, ...], slots: int) -> Request:
    prompt = text[: draw(st.integers(1, len(text)))]
    if draw(st.booleans()):
        prompt = (*prompt[:-1], draw(st.integers(0, 1)))
    room = slots + 1 - len(prompt)
    max_tokens = draw(st.integers(1, room) | st.just(room))
    params = SamplingParams(
        max_tokens=max_tokens,
        min_tokens=draw(st.integers(0, max_tokens)),
        seed=draw(st.sampled_from([0, 0, 0, 1])),
        ignore_eos=draw(st.booleans()),
        stop_token_ids=tuple(draw(st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=2))),
        logprobs=draw(st.sampled_from([None, None, None, 1])),
    )
    received = None
    if max_tokens > 1 and draw(st.booleans()):
        received = ReceivedKV(len(prompt), (0,))
    arrives_s = draw(st.sampled_from([0.0, 0.0, 0.0, 1.5]) | st.floats(0, 12))
    return Request(arrives_s, prompt, params, draw(st.integers(0, 2)), received)


@settings(max_examples=300, deadline=None)
@given(load=loads(), ticks_s=st.sampled_from([inf, inf, 0.9]))
def test_whatever_the_load_steps_taken_together_are_those_taken_one_by_one(
    load: tuple[list[Request], dict[str, Any]], ticks_s: float
) -> None:
    requests, config = load
    drive = drive_both(requests, ticks_s, **config)
    parts = make_drive(True, **config)
    parts.at_a_time = 2
    parts.serve(requests, ticks_s)
    assert parts.outputs == drive.outputs and pool_state(parts.engine) == pool_state(drive.engine)
    steps = [output.step for output in drive.outputs]
    event(f"preempted: {any(step.preempted for step in steps)}, hits: {any(step.cached_tokens for step in steps)}")
    event(f"steps in runs: {sum(drive.runs) * 4 // len(steps)} / 4, waiting: {any(step.waiting for step in steps)}")
