"""Sequences that start with keys and values from another engine: prefill in one place, decode in another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from receiving_executor import ReceivingExecutor
from reference_executor import expected_output

from runners.runtime.engine import Engine, RequestRejected, StepOutput
from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import ReceivedKV, SamplingParams

PROMPT = (1, 2, 3, 4, 5, 6, 7, 8, 9)
PARAMS = SamplingParams(max_tokens=6, ignore_eos=True)
OUTPUT = expected_output(PROMPT, PARAMS)


def make_engine(num_blocks: int = 16, **config: int | bool) -> tuple[Engine, ReceivingExecutor]:
    executor = ReceivingExecutor(num_blocks, block_size=4)
    return Engine(executor, SchedulerConfig(**config)), executor


def add_received(engine: Engine, name: str, prompt: tuple[int, ...], params: SamplingParams, num_output: int) -> None:
    """Queue the request as its prefill engine hands it over, `num_output` tokens of its answer later."""
    assert isinstance(engine.executor, ReceivingExecutor)
    output = expected_output(prompt, params)[:num_output]
    engine.executor.sent[name] = prompt + output
    engine.add(name, prompt, params, received=ReceivedKV(len(prompt + output) - 1, output))


def drain(engine: Engine) -> list[StepOutput]:
    outputs = []
    while engine.has_work:
        output = engine.step()
        assert output is not None
        engine.check_integrity()
        outputs.append(output)
    assert engine.step() is None
    return outputs


def tokens_of(outputs: list[StepOutput], name: str) -> tuple[int, ...]:
    return tuple(token.token_id for output in outputs for token in output.tokens if token.request_id == name)


def test_a_received_sequence_only_decodes_and_gives_the_rest_of_its_answer() -> None:
    engine, executor = make_engine()
    add_received(engine, "a", PROMPT, PARAMS, num_output=1)
    outputs = drain(engine)
    assert tokens_of(outputs, "a") == OUTPUT[1:]
    assert outputs[-1].tokens[0].finish_reason == "length"
    assert [(out.step.prefill_tokens, out.step.decode_tokens) for out in outputs] == [(0, 1)] * 5
    assert executor.num_received_tokens == 9


def test_its_blocks_count_against_the_pool_and_are_told_as_any_others() -> None:
    engine, _ = make_engine(num_blocks=4)
    add_received(engine, "a", PROMPT, PARAMS, num_output=1)
    add_received(engine, "b", PROMPT[::-1], PARAMS, num_output=1)
    output = engine.step()
    assert output is not None
    assert (output.step.running, output.step.waiting) == (1, 1)
    assert (output.step.kv_used_blocks, output.step.kv_used_slots, output.step.kv_free_blocks) == (3, 10, 1)
    assert engine.kv_blocks().owners == {"a": 3}
    outputs = drain(engine)
    assert tokens_of(outputs, "b") == expected_output(PROMPT[::-1], PARAMS)[1:]


def test_its_times_are_those_of_this_engine() -> None:
    engine, _ = make_engine(max_num_seqs=1)
    engine.add("before", PROMPT, replace(PARAMS, max_tokens=2))
    engine.step()
    add_received(engine, "a", PROMPT[::-1], replace(PARAMS, max_tokens=2), num_output=1)
    timing = drain(engine)[-1].tokens[0].timing
    assert timing is not None
    assert timing.queued_s == pytest.approx(1.009)
    assert timing.scheduled_first_s == pytest.approx(2.010)
    assert timing.prefill_done_s == timing.finished_s == pytest.approx(3.011)
    assert timing.cached_tokens == 0


def test_what_it_received_is_offered_to_later_prefixes() -> None:
    engine, executor = make_engine()
    add_received(engine, "a", PROMPT, PARAMS, num_output=1)
    engine.step()
    engine.add("b", PROMPT, PARAMS)
    output = engine.step()
    assert output is not None
    assert (output.step.cached_tokens, output.step.prefill_tokens) == (8, 1)
    assert tokens_of([output, *drain(engine)], "b") == OUTPUT
    assert executor.num_received_tokens == 9


def test_blocks_that_are_here_already_are_shared_and_only_what_exceeds_the_received_is_a_hit() -> None:
    engine, executor = make_engine()
    engine.add("a", PROMPT, PARAMS)
    engine.step()
    executor.sent["b"] = PROMPT
    engine.add("b", PROMPT, PARAMS, received=ReceivedKV(5))
    output = engine.step()
    assert output is not None
    assert (output.step.cached_tokens, output.step.prefill_tokens) == (3, 1)
    assert output.step.kv_used_blocks == 4
    assert tokens_of([output, *drain(engine)], "b") == OUTPUT


def test_after_a_preemption_it_is_computed_here() -> None:
    engine, executor = make_engine(num_blocks=7, prefix_cache=False)
    params = replace(PARAMS, max_tokens=12)
    prompts = {"a": PROMPT, "b": PROMPT[::-1]}
    for name, prompt in prompts.items():
        add_received(engine, name, prompt, params, num_output=1)
    outputs = drain(engine)
    assert sum(out.step.preempted for out in outputs) == 1
    assert max(out.step.prefill_tokens for out in outputs) > len(PROMPT)
    assert executor.num_received_tokens == 2 * len(PROMPT)
    for name, prompt in prompts.items():
        assert tokens_of(outputs, name) == expected_output(prompt, params)[1:]


def test_a_received_prompt_past_the_budget_runs_where_prompts_are_not_computed_in_chunks() -> None:
    engine, _ = make_engine(max_num_seqs=2, max_num_batched_tokens=4, chunked_prefill=False)
    add_received(engine, "a", PROMPT, PARAMS, num_output=1)
    assert tokens_of(drain(engine), "a") == OUTPUT[1:]


def test_a_failed_first_step_is_tried_again_with_what_was_received() -> None:
    class FailingExecutor(ReceivingExecutor):
        def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
            if not self.batches:
                self.batches.append(batch)
                raise OSError("the link fell silent")
            return super().execute(batch)

    executor = FailingExecutor(16, 4)
    engine = Engine(executor, SchedulerConfig())
    add_received(engine, "a", PROMPT, PARAMS, num_output=1)
    with pytest.raises(OSError, match="fell silent"):
        engine.step()
    assert tokens_of(drain(engine), "a") == OUTPUT[1:]


@pytest.mark.parametrize(
    ("received", "params", "message"),
    [
        (ReceivedKV(0, (1,)), PARAMS, "received.num_tokens: 0 is not allowed; allowed: 1 to 9"),
        (ReceivedKV(10, (1,)), PARAMS, "received.num_tokens: 10 is not allowed; allowed: 1 to 9"),
        (ReceivedKV(9), PARAMS, "received.num_tokens: 9 is not allowed; allowed: 1 to 8"),
        (ReceivedKV(9, (1,) * 6), PARAMS, "received.output_ids: 6 tokens .* fewer than max_tokens .6."),
        (ReceivedKV(9, (1,)), replace(PARAMS, prompt_logprobs=1), "received: .* without embed and prompt_logprobs"),
        (ReceivedKV(8), replace(PARAMS, embed=True), "received: .* without embed and prompt_logprobs"),
    ],
)
def test_what_leaves_nothing_to_do_or_lacks_what_is_asked_for_is_refused(
    received: ReceivedKV, params: SamplingParams, message: str
) -> None:
    engine, _ = make_engine()
    with pytest.raises(RequestRejected, match=message):
        engine.add("a", PROMPT, params, received=received)
    assert not engine.has_work


@st.composite
def handed_over(draw: st.DrawFn) -> tuple[tuple[int, ...], SamplingParams, int, int]:
    """A prompt, what is asked for, and how many tokens of output and of KV come along."""
    prompt = tuple(draw(st.lists(st.integers(0, 1), min_size=1, max_size=12)))
    params = SamplingParams(max_tokens=draw(st.integers(1, 12)), seed=draw(st.integers(0, 1)), ignore_eos=True)
    num_output = draw(st.integers(0, params.max_tokens - 1))
    return prompt, params, num_output, draw(st.integers(0, len(prompt) + num_output - 1))


@settings(max_examples=150, deadline=None)
@given(
    requests=st.lists(handed_over(), min_size=1, max_size=6),
    num_blocks=st.integers(6, 14),
    prefix_cache=st.booleans(),
    budget=st.integers(3, 12),
)
def test_whatever_is_received_the_answers_are_those_of_one_engine(
    requests: list[tuple[tuple[int, ...], SamplingParams, int, int]], num_blocks: int, prefix_cache: bool, budget: int
) -> None:
    engine, executor = make_engine(num_blocks, max_num_seqs=3, max_num_batched_tokens=budget, prefix_cache=prefix_cache)
    for number, (prompt, params, num_output, num_tokens) in enumerate(requests):
        output = expected_output(prompt, params)[:num_output]
        executor.sent[str(number)] = prompt + output
        received = ReceivedKV(num_tokens, output) if num_tokens else None
        engine.add(str(number), prompt, params, received=received)
    outputs = drain(engine)
    assert engine.stats().kv_used_blocks == 0
    for number, (prompt, params, num_output, num_tokens) in enumerate(requests):
        told = num_output if num_tokens else 0
        assert tokens_of(outputs, str(number)) == expected_output(prompt, params)[told:]
