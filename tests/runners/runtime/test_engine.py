"""The engine's promises to its caller: tokens, finish reasons, rejections, aborts, times, and steps as events."""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from reference_executor import VOCAB_SIZE, ReferenceExecutor, expected_output

from runners.runtime.blocks import BlockAccountingError
from runners.runtime.engine import Engine, ExecutorContractError, RequestRejected, StepOutput
from runners.runtime.executor import ScheduledSequence, StepDetail, StepResult
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams

PROMPT = (1, 2, 3, 4, 5)


def make_engine(executor: ReferenceExecutor | None = None, **config: Any) -> Engine:
    return Engine(executor or ReferenceExecutor(num_blocks=16, block_size=4), SchedulerConfig(**config))


def step(engine: Engine) -> StepOutput:
    output = engine.step()
    assert output is not None
    engine.check_integrity()
    return output


def run_to_end(engine: Engine) -> list[StepOutput]:
    outputs = []
    while engine.has_work:
        outputs.append(step(engine))
    assert engine.step() is None
    return outputs


def tokens_of(outputs: list[StepOutput]) -> dict[str, tuple[int, ...]]:
    tokens: dict[str, tuple[int, ...]] = defaultdict(tuple)
    for output in outputs:
        for token in output.tokens:
            tokens[token.request_id] += (token.token_id,)
    return tokens


def reasons_of(outputs: list[StepOutput]) -> list[str | None]:
    return [token.finish_reason for output in outputs for token in output.tokens]


def test_an_idle_engine_has_no_work_and_no_step() -> None:
    engine = make_engine()
    assert not engine.has_work
    assert engine.step() is None


def test_a_request_gives_max_tokens_tokens_and_ends_by_length() -> None:
    engine, params = make_engine(), SamplingParams(max_tokens=7)
    engine.add("a", PROMPT, params)
    outputs = run_to_end(engine)
    assert tokens_of(outputs)["a"] == expected_output(PROMPT, params)
    assert reasons_of(outputs) == [None] * 6 + ["length"]


def test_a_stop_token_is_given_and_ends_the_request() -> None:
    plain = expected_output(PROMPT, SamplingParams(max_tokens=9))
    unused = next(token for token in range(VOCAB_SIZE) if token not in plain)
    engine, params = make_engine(), SamplingParams(max_tokens=9, stop_token_ids=(unused, plain[3]))
    engine.add("a", PROMPT, params)
    outputs = run_to_end(engine)
    assert tokens_of(outputs)["a"] == plain[: plain.index(plain[3]) + 1]
    assert reasons_of(outputs)[-1] == "stop"


def test_a_stop_token_does_not_end_a_request_that_ignores_eos() -> None:
    plain = expected_output(PROMPT, SamplingParams(max_tokens=9))
    engine = make_engine()
    engine.add("a", PROMPT, SamplingParams(max_tokens=9, stop_token_ids=plain, ignore_eos=True))
    outputs = run_to_end(engine)
    assert tokens_of(outputs)["a"] == plain
    assert reasons_of(outputs)[-1] == "length"


def test_a_stop_token_ends_a_request_from_min_tokens_on() -> None:
    plain = expected_output(PROMPT, SamplingParams(max_tokens=9))
    engine = make_engine()
    engine.add("a", PROMPT, SamplingParams(max_tokens=9, min_tokens=4, stop_token_ids=plain))
    outputs = run_to_end(engine)
    assert tokens_of(outputs)["a"] == plain[:4]
    assert reasons_of(outputs)[-1] == "stop"


def test_a_token_that_is_last_and_a_stop_token_ends_by_stop() -> None:
    plain = expected_output(PROMPT, SamplingParams(max_tokens=1))
    engine = make_engine()
    engine.add("a", PROMPT, SamplingParams(max_tokens=1, stop_token_ids=plain))
    assert reasons_of(run_to_end(engine)) == ["stop"]


@pytest.mark.parametrize(
    ("prompt_len", "params", "field", "allowed"),
    [
        (0, SamplingParams(), "prompt", "at least one token"),
        (5, SamplingParams(max_tokens=0), "max_tokens", "at least 1"),
        (5, SamplingParams(max_tokens=3, min_tokens=4), "min_tokens", "0 to max_tokens (3)"),
        (5, SamplingParams(max_tokens=3, min_tokens=-1), "min_tokens", "0 to max_tokens (3)"),
        (40, SamplingParams(max_tokens=1), "prompt", "at most 39 tokens"),
        (30, SamplingParams(max_tokens=11), "max_tokens", "at most 10, as the prompt (30) and the output share 40"),
    ],
)
def test_a_request_that_could_never_run_is_refused_with_what_is_allowed(
    prompt_len: int, params: SamplingParams, field: str, allowed: str
) -> None:
    engine = make_engine(ReferenceExecutor(num_blocks=16, block_size=4, max_model_len=40))
    with pytest.raises(RequestRejected) as error:
        engine.add("a", tuple(range(prompt_len)), params)
    assert (error.value.field, error.value.allowed) == (field, allowed)
    assert str(error.value).startswith(f"{field}: ")
    assert not engine.has_work


def test_a_request_larger_than_the_pool_is_refused_and_one_that_just_fits_runs() -> None:
    engine = make_engine(ReferenceExecutor(num_blocks=4, block_size=4))
    with pytest.raises(RequestRejected, match="max_tokens: 13 is not allowed; allowed: at most 12"):
        engine.add("a", PROMPT, SamplingParams(max_tokens=13))
    params = SamplingParams(max_tokens=12)
    engine.add("a", PROMPT, params)
    outputs = run_to_end(engine)
    assert tokens_of(outputs)["a"] == expected_output(PROMPT, params)
    assert outputs[-1].step.kv_used_slots == 16


def test_a_prompt_past_the_budget_is_refused_only_without_chunked_prefill() -> None:
    limits = {"max_num_seqs": 2, "max_num_batched_tokens": 4}
    with pytest.raises(RequestRejected, match=r"at most max_num_batched_tokens \(4\), as chunked_prefill is off"):
        make_engine(**limits, chunked_prefill=False).add("a", PROMPT, SamplingParams())
    make_engine(**limits).add("a", PROMPT, SamplingParams())


def test_an_id_in_use_is_refused_and_free_again_once_its_request_ended() -> None:
    engine, params = make_engine(), SamplingParams(max_tokens=2)
    engine.add("a", PROMPT, params)
    with pytest.raises(RequestRejected, match="request_id: a is not allowed"):
        engine.add("a", PROMPT, params)
    run_to_end(engine)
    engine.add("a", PROMPT, params)
    assert tokens_of(run_to_end(engine))["a"] == expected_output(PROMPT, params)


def test_a_rejection_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(RequestRejected("prompt", "9 tokens", "at most 8 tokens")))
    assert (error.field, error.value, error.allowed) == ("prompt", "9 tokens", "at most 8 tokens")


@pytest.mark.parametrize("steps_before", [0, 1, 2, 5])
def test_an_abort_frees_the_blocks_at_once_waiting_in_mid_chunk_or_decoding(steps_before: int) -> None:
    engine = make_engine(max_num_seqs=1, max_num_batched_tokens=2)
    engine.add("a", PROMPT, SamplingParams(max_tokens=10))
    for _ in range(steps_before):
        step(engine)
    assert engine.stats().kv_used_blocks == (2 if steps_before else 0)
    assert engine.abort("a")
    assert (engine.stats().kv_used_blocks, engine.stats().kv_used_slots) == (0, 0)
    engine.check_integrity()
    assert not engine.has_work
    assert engine.step() is None


def test_an_abort_of_an_unknown_or_finished_request_says_so() -> None:
    engine = make_engine()
    engine.add("a", PROMPT, SamplingParams(max_tokens=1))
    run_to_end(engine)
    assert not engine.abort("a")
    assert not engine.abort("never came")


def test_an_abort_leaves_the_others_tokens_as_they_were() -> None:
    engine, params = make_engine(), SamplingParams(max_tokens=8)
    engine.add("stays", PROMPT, params)
    engine.add("goes", PROMPT, params)
    outputs = [step(engine) for _ in range(3)]
    engine.abort("goes")
    tokens = tokens_of(outputs + run_to_end(engine))
    assert tokens["stays"] == expected_output(PROMPT, params)
    assert tokens["goes"] == tokens["stays"][:3]


def test_an_abort_from_within_a_step_gives_no_token_for_the_aborted() -> None:
    class AbortingExecutor(ReferenceExecutor):
        def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
            engine.abort("goes")
            return super().execute(batch)

    engine, params = make_engine(AbortingExecutor(num_blocks=16, block_size=4)), SamplingParams(max_tokens=8)
    engine.add("goes", PROMPT, params)
    engine.add("stays", PROMPT, params)
    tokens = tokens_of(run_to_end(engine))
    assert tokens == {"stays": expected_output(PROMPT, params)}


def test_a_failed_step_can_be_tried_again() -> None:
    class FailingExecutor(ReferenceExecutor):
        def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
            result = super().execute(batch)
            if len(self.batches) % 2:
                raise OSError("the chip fell off")
            return result

    engine, params = make_engine(FailingExecutor(num_blocks=16, block_size=4)), SamplingParams(max_tokens=6)
    engine.add("a", PROMPT, params)
    outputs = []
    while engine.has_work:
        with pytest.raises(OSError, match="the chip fell off"):
            engine.step()
        engine.check_integrity()
        outputs.append(step(engine))
    assert tokens_of(outputs)["a"] == expected_output(PROMPT, params)


@pytest.mark.parametrize("tokens", [{}, {"a": 1, "b": 2}])
def test_an_executor_that_samples_the_wrong_requests_is_found_out(tokens: dict[str, int]) -> None:
    class WrongExecutor(ReferenceExecutor):
        def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
            return StepResult(tokens, 0.1)

    engine = make_engine(WrongExecutor(num_blocks=16, block_size=4))
    engine.add("a", PROMPT, SamplingParams())
    with pytest.raises(ExecutorContractError, match="not for those to be sampled"):
        engine.step()


def test_a_leaked_block_is_noticed_at_the_next_idle_moment() -> None:
    engine = make_engine()
    engine.add("a", PROMPT, SamplingParams(max_tokens=1))
    step(engine)
    assert engine._pool.allocate(1) is not None
    with pytest.raises(BlockAccountingError, match="block tables"):
        engine.step()


def test_times_are_on_the_executors_clock() -> None:
    executor = ReferenceExecutor(num_blocks=16, block_size=4)
    executor.step_s, executor.token_s = 1.0, 0.0
    engine = make_engine(executor, max_num_seqs=1, max_num_batched_tokens=3)
    engine.add("a", PROMPT, SamplingParams(max_tokens=2))
    engine.add("b", PROMPT, SamplingParams(max_tokens=1))
    outputs = run_to_end(engine)
    first, second = (token.timing for output in outputs for token in output.tokens if token.timing)
    assert (first.queued_s, first.scheduled_first_s, first.prefill_done_s, first.finished_s) == (0, 0, 2, 3)
    assert (second.queued_s, second.scheduled_first_s, second.prefill_done_s, second.finished_s) == (0, 3, 4, 4)
    assert (first.cached_tokens, second.cached_tokens) == (0, 4)
    assert [(output.step.start_s, output.step.duration_s) for output in outputs] == [(n, 1) for n in range(4)]


def test_the_times_of_an_unfinished_request_are_those_it_would_end_with() -> None:
    engine = make_engine(max_num_seqs=1, max_num_batched_tokens=3)
    engine.add("a", PROMPT, SamplingParams(max_tokens=9))
    step(engine)
    assert engine.timing("a") is None
    step(engine)
    timing = engine.timing("a")
    assert timing is not None
    assert timing.queued_s == timing.scheduled_first_s == 0
    assert timing.prefill_done_s == timing.finished_s == engine.executor.now() > 2
    engine.abort("a")
    assert engine.timing("a") is None


def test_a_step_says_what_it_computed_and_what_the_cache_spared() -> None:
    engine = make_engine(max_num_seqs=2, max_num_batched_tokens=6)
    engine.add("a", PROMPT, SamplingParams(max_tokens=3))
    steps = [step(engine).step]
    engine.add("b", PROMPT, SamplingParams(max_tokens=1))
    engine.add("c", PROMPT, SamplingParams(max_tokens=1))
    steps += [output.step for output in run_to_end(engine)]
    assert [event.index for event in steps] == [1, 2, 3]
    assert [(event.prefill_tokens, event.decode_tokens) for event in steps] == [(5, 0), (1, 1), (1, 1)]
    assert [event.cached_tokens for event in steps] == [0, 4, 4]
    assert [(event.running, event.waiting) for event in steps] == [(1, 0), (2, 1), (2, 0)]
    assert [(event.kv_used_blocks, event.kv_used_slots) for event in steps] == [(2, 5), (3, 7), (3, 8)]
    assert all(event.kv_used_blocks + event.kv_cached_blocks + event.kv_free_blocks == 16 for event in steps)


def test_a_sampled_requests_tokens_depend_on_its_seed_and_not_on_its_company() -> None:
    params = [SamplingParams(max_tokens=6, temperature=1.0, seed=seed) for seed in (1, 2)]
    engine = make_engine()
    for name, param in zip("ab", params, strict=True):
        engine.add(name, PROMPT, param)
    tokens = tokens_of(run_to_end(engine))
    assert tokens == {name: expected_output(PROMPT, param) for name, param in zip("ab", params, strict=True)}
    assert tokens["a"] != tokens["b"]


def test_preemption_happens_and_changes_no_token() -> None:
    engine, params = make_engine(ReferenceExecutor(num_blocks=8, block_size=4)), SamplingParams(max_tokens=20)
    prompts = {name: (*PROMPT, number) for number, name in enumerate("abc")}
    for name, prompt in prompts.items():
        engine.add(name, prompt, params)
    outputs = run_to_end(engine)
    assert tokens_of(outputs) == {name: expected_output(prompt, params) for name, prompt in prompts.items()}
    timings = {token.request_id: token.timing for output in outputs for token in output.tokens if token.timing}
    preemptions = {name: timing.preemptions for name, timing in timings.items()}
    assert preemptions["a"] == 0
    assert sum(preemptions.values()) == sum(output.step.preempted for output in outputs) > 0


def test_a_stream_of_later_requests_does_not_hold_up_an_earlier_large_one() -> None:
    engine, params = make_engine(ReferenceExecutor(num_blocks=8, block_size=4)), SamplingParams(max_tokens=4)
    large = tuple(range(28))
    for number in range(3):
        engine.add(f"before {number}", PROMPT, params)
    engine.add("large", large, params)
    order: list[str] = []
    for number in range(40):
        engine.add(f"after {number}", PROMPT, params)
        order += [token.request_id for token in step(engine).tokens if token.finish_reason]
    assert order.index("large") == 3


def test_engines_of_one_run_number_their_steps_together_and_sign_them() -> None:
    numbers = count(1)
    first, second = (
        Engine(ReferenceExecutor(16, 4), SchedulerConfig(), name=name, numbers=numbers) for name in ("one", "two")
    )
    for engine in (first, second):
        engine.add("a", PROMPT, SamplingParams(max_tokens=2))
    steps = [step(engine).step for engine in (first, second, second, first)]
    assert [(event.index, event.engine) for event in steps] == [(1, "one"), (2, "two"), (3, "two"), (4, "one")]


def test_a_step_says_what_its_executor_knows_of_it_beside_its_time() -> None:
    class DetailedExecutor(ReferenceExecutor):
        def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
            return replace(super().execute(batch), detail=StepDetail("link", 0.25, 7.5))

    engine = make_engine(DetailedExecutor(num_blocks=16, block_size=4))
    engine.add("a", PROMPT, SamplingParams(max_tokens=1))
    event = step(engine).step
    assert (event.bound, event.link_s, event.energy_j, event.engine) == ("link", 0.25, 7.5, None)
