"""Room for drafts beside a decode's one token: who gets how much, and what becomes of the accepted and the rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from drafting_executor import DraftingExecutor
from engine_setups import Setup, named, setups, simulate
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference_executor import expected_output

from runners.runtime.engine import Engine, ExecutorContractError, StepOutput
from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams

PROMPT = (1, 2, 3, 4, 5)
PARAMS = SamplingParams(max_tokens=20, ignore_eos=True)


def make_engine(*, num_blocks: int = 32, accepts: int | None = None, **config: Any) -> Engine:
    executor = DraftingExecutor(num_blocks, block_size=4, accepts=accepts)
    return Engine(executor, SchedulerConfig(**{"num_lookahead_tokens": 3} | config))


def step(engine: Engine) -> StepOutput:
    output = engine.step()
    assert output is not None
    engine.check_integrity()
    return output


def drain(engine: Engine) -> list[StepOutput]:
    outputs = []
    while engine.has_work:
        outputs.append(step(engine))
    assert engine.step() is None
    return outputs


def drafts_of(engine: Engine) -> list[int]:
    """What each share of the last step had room for."""
    assert isinstance(engine.executor, DraftingExecutor)
    return [share.num_draft_tokens for share in engine.executor.batches[-1]]


def test_accepted_tokens_come_with_their_step_and_are_counted() -> None:
    engine = make_engine(accepts=2)
    engine.add("a", PROMPT, PARAMS)
    outputs = drain(engine)
    assert [len(output.tokens) for output in outputs] == [1, 3, 3, 3, 3, 3, 3, 1]
    assert tuple(token.token_id for output in outputs for token in output.tokens) == expected_output(PROMPT, PARAMS)
    assert [output.step.draft_tokens for output in outputs] == [0, 3, 3, 3, 3, 3, 3, 0]
    assert [output.step.accepted_tokens for output in outputs] == [0, 2, 2, 2, 2, 2, 2, 0]
    assert all(output.step.decode_tokens == 1 for output in outputs[1:])
    timing = outputs[-1].tokens[-1].timing
    assert timing is not None
    assert (timing.draft_tokens, timing.accepted_tokens) == (18, 12)


def test_no_more_is_drafted_than_can_come_out() -> None:
    engine = make_engine(accepts=0)
    engine.add("a", PROMPT, replace(PARAMS, max_tokens=6))
    assert [output.step.draft_tokens for output in drain(engine)] == [0, 3, 3, 2, 1, 0]


def test_a_prefill_has_no_drafts_in_chunks_or_at_its_end() -> None:
    engine = make_engine(max_num_seqs=1, max_num_batched_tokens=4)
    engine.add("a", PROMPT, PARAMS)
    for _ in range(2):
        step(engine)
        assert drafts_of(engine) == [0]


def test_slots_of_rejected_drafts_are_used_again_and_their_blocks_given_back() -> None:
    engine = make_engine(accepts=0)
    engine.add("a", PROMPT, PARAMS)
    steps = [step(engine).step for _ in range(5)]
    assert [(event.kv_used_slots, event.kv_used_blocks) for event in steps] == [(5, 2), (6, 2), (7, 2), (8, 2), (9, 3)]


def test_what_was_accepted_fills_slots_and_is_offered_to_later_prefixes() -> None:
    engine = make_engine(accepts=3)
    engine.add("a", PROMPT, PARAMS)
    step(engine)
    assert (step(engine).step.kv_used_slots, engine.stats().kv_used_blocks) == (9, 3)
    engine.add("b", PROMPT + expected_output(PROMPT, PARAMS)[:4], PARAMS)
    assert step(engine).step.cached_tokens == 8


def test_the_budget_is_shared_out_in_order() -> None:
    engine = make_engine(max_num_seqs=3, max_num_batched_tokens=8, accepts=0)
    for name in "abc":
        engine.add(name, (1,), PARAMS)
    step(engine)
    step(engine)
    assert drafts_of(engine) == [3, 2, 0]


def test_drafts_leave_half_of_the_budget_to_a_prefill_that_is_due() -> None:
    engine = make_engine(max_num_seqs=3, max_num_batched_tokens=8, accepts=0)
    for name in "ab":
        engine.add(name, (1,), PARAMS)
    step(engine)
    engine.add("c", tuple(range(20)), PARAMS)
    output = step(engine)
    assert drafts_of(engine) == [3, 0, 0]
    assert (output.step.decode_tokens, output.step.draft_tokens, output.step.prefill_tokens) == (2, 3, 3)


def test_nobody_is_preempted_for_a_draft() -> None:
    """Four blocks: each of two has two full ones in the end. Drafts use what is free, and no more."""
    engine = make_engine(num_blocks=4, accepts=0, prefix_cache=False)
    for name in "ab":
        engine.add(name, PROMPT, replace(PARAMS, max_tokens=4))
    outputs = drain(engine)
    assert sum(output.step.preempted for output in outputs) == 0
    assert [output.step.draft_tokens for output in outputs] == [0, 4, 2, 0]


def test_drafts_stop_where_free_blocks_end() -> None:
    engine = make_engine(num_blocks=3, num_lookahead_tokens=9, accepts=0, prefix_cache=False)
    engine.add("a", PROMPT, replace(PARAMS, max_tokens=8))
    step(engine)
    step(engine)
    assert drafts_of(engine) == [6]


def test_a_stop_token_among_the_accepted_ends_the_request_there() -> None:
    plain = expected_output(PROMPT, PARAMS)
    assert plain.index(plain[2]) == 2
    engine = make_engine(accepts=3)
    engine.add("a", PROMPT, replace(PARAMS, ignore_eos=False, stop_token_ids=(plain[2],)))
    outputs = drain(engine)
    assert [tuple(token.token_id for token in output.tokens) for output in outputs] == [plain[:1], plain[1:3]]
    assert outputs[-1].tokens[-1].finish_reason == "stop"
    timing = outputs[-1].tokens[-1].timing
    assert timing is not None
    assert (timing.draft_tokens, timing.accepted_tokens, outputs[-1].step.accepted_tokens) == (3, 1, 1)


def test_an_executor_that_accepts_more_than_there_was_room_for_is_found_out() -> None:
    class EagerExecutor(DraftingExecutor):
        def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
            return replace(super().execute(batch), accepted={"a": (1, 2)})

    engine = Engine(EagerExecutor(16, 4), SchedulerConfig(num_lookahead_tokens=1))
    engine.add("a", PROMPT, PARAMS)
    with pytest.raises(ExecutorContractError, match="accepted"):
        engine.step()


def test_fewer_than_no_drafts_are_refused() -> None:
    with pytest.raises(ValueError, match="num_lookahead_tokens: -1 is not allowed; allowed: at least 0"):
        SchedulerConfig(num_lookahead_tokens=-1)


@settings(max_examples=250, deadline=None)
@given(setup=setups(), lookahead=st.integers(1, 5), seed=st.integers(0, 3))
def test_whatever_is_drafted_and_accepted_the_answers_are_the_same(setup: Setup, lookahead: int, seed: int) -> None:
    drafting = replace(setup, config=replace(setup.config, num_lookahead_tokens=lookahead))
    outcome = simulate(drafting, lambda blocks, size: DraftingExecutor(blocks, size, seed))
    event(f"preemptions: {min(outcome.preempted, 3)}, cache hits: {outcome.cached_tokens > 0}")
    for name, request in named(setup):
        expected = expected_output(request.prompt_ids, request.params)
        if name in outcome.aborted:
            assert outcome.tokens[name] == expected[: len(outcome.tokens[name])]
        else:
            assert outcome.tokens[name] == expected
