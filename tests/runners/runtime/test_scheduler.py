"""The scheduler's decisions, step by step, without an engine or a clock."""

from __future__ import annotations

from typing import Any

import pytest

from runners.runtime.blocks import BlockPool
from runners.runtime.scheduler import Schedule, Scheduler, SchedulerConfig
from runners.runtime.sequence import SamplingParams, Sequence, SequenceState

BLOCK_SIZE = 4


def make_scheduler(*, num_blocks: int = 100, **config: Any) -> Scheduler:
    return Scheduler(SchedulerConfig(**config), BlockPool(num_blocks, BLOCK_SIZE))


def add(scheduler: Scheduler, name: str, prompt_len: int, *, priority: int = 0, first: int = 0) -> Sequence:
    """Queue a prompt of `prompt_len` tokens, numbered from `first`, so that equal `first` means a shared prefix."""
    prompt = tuple(range(first, first + prompt_len))
    sequence = Sequence(name, prompt, SamplingParams(max_tokens=1000), priority)
    scheduler.add(sequence)
    return sequence


def run_step(scheduler: Scheduler) -> Schedule:
    """One step on a chip that samples token 7 for everyone, with the accounting checked after it."""
    plan = scheduler.schedule()
    scheduler.commit(plan)
    for sequence, share in zip(plan.sequences, plan.batch, strict=True):
        if share.sample:
            sequence.output_ids.append(7)
    scheduler.pool.check_integrity(sequence.block_table for sequence in scheduler.running)
    return plan


def shares(plan: Schedule) -> dict[str, int]:
    """Tokens scheduled per request, in the order of the batch."""
    return {share.request_id: len(share.token_ids) for share in plan.batch}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs: 0"),
        ({"max_num_seqs": 8, "max_num_batched_tokens": 7}, "max_num_batched_tokens: 7"),
    ],
)
def test_a_config_under_which_a_decode_could_starve_is_refused(config: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=f"{named} is not allowed; allowed: at least"):
        SchedulerConfig(**config)


def test_without_work_the_schedule_is_empty() -> None:
    assert run_step(make_scheduler()).batch == []


def test_a_prompt_longer_than_the_budget_is_computed_in_chunks_and_sampled_once() -> None:
    scheduler = make_scheduler(max_num_seqs=1, max_num_batched_tokens=8)
    add(scheduler, "a", 18)
    steps = [run_step(scheduler).batch[0] for _ in range(4)]
    assert [(share.start, len(share.token_ids), share.sample) for share in steps] == [
        (0, 8, False),
        (8, 8, False),
        (16, 2, True),
        (18, 1, True),
    ]
    assert steps[0].token_ids == tuple(range(8))
    assert steps[3].token_ids == (7,)


def test_prefill_and_decode_tokens_are_told_apart() -> None:
    scheduler = make_scheduler(max_num_seqs=2, max_num_batched_tokens=8)
    add(scheduler, "a", 1)
    first = run_step(scheduler)
    add(scheduler, "b", 9, first=50)
    plans = [first, *(run_step(scheduler) for _ in range(3))]
    assert [(plan.prefill_tokens, plan.decode_tokens) for plan in plans] == [(1, 0), (7, 1), (2, 1), (0, 2)]


def test_decodes_go_before_an_earlier_prefill() -> None:
    scheduler = make_scheduler(max_num_seqs=3, max_num_batched_tokens=8)
    add(scheduler, "short", 4, priority=1)
    run_step(scheduler)
    add(scheduler, "long", 40, priority=0, first=50)
    assert [shares(run_step(scheduler)) for _ in range(2)] == [{"short": 1, "long": 7}] * 2


def test_a_waiting_prompt_gets_what_the_running_ones_leave_of_the_budget() -> None:
    scheduler = make_scheduler(max_num_seqs=4, max_num_batched_tokens=10)
    add(scheduler, "a", 6)
    add(scheduler, "b", 12, first=50)
    add(scheduler, "c", 2, first=90)
    assert shares(run_step(scheduler)) == {"a": 6, "b": 4}
    assert shares(run_step(scheduler)) == {"a": 1, "b": 8, "c": 1}
    assert shares(run_step(scheduler)) == {"a": 1, "c": 1, "b": 1}


def test_without_chunked_prefill_a_prompt_waits_until_it_fits_whole_and_is_not_overtaken() -> None:
    scheduler = make_scheduler(max_num_seqs=4, max_num_batched_tokens=10, chunked_prefill=False)
    add(scheduler, "a", 6)
    add(scheduler, "b", 9, first=50)
    add(scheduler, "c", 1, first=90)
    assert [shares(run_step(scheduler)) for _ in range(3)] == [
        {"a": 6},
        {"a": 1, "b": 9},
        {"a": 1, "b": 1, "c": 1},
    ]


def test_no_more_than_max_num_seqs_run() -> None:
    scheduler = make_scheduler(max_num_seqs=2)
    sequences = [add(scheduler, name, 3) for name in "abc"]
    assert list(shares(run_step(scheduler))) == ["a", "b"]
    scheduler.remove(sequences[0], SequenceState.FINISHED)
    assert list(shares(run_step(scheduler))) == ["b", "c"]


def test_a_lower_priority_number_is_admitted_sooner_and_equal_ones_in_order_of_arrival() -> None:
    scheduler = make_scheduler(max_num_seqs=5)
    for name, priority in [("late", 2), ("mid1", 1), ("mid2", 1), ("first", -1)]:
        add(scheduler, name, 3, priority=priority)
    assert list(shares(run_step(scheduler))) == ["first", "mid1", "mid2", "late"]


def test_first_come_first_served_heeds_no_priority() -> None:
    scheduler = make_scheduler(max_num_seqs=5, policy="fcfs")
    for name, priority in [("first", 2), ("second", -1), ("third", 1)]:
        add(scheduler, name, 3, priority=priority)
    assert list(shares(run_step(scheduler))) == ["first", "second", "third"]


def test_a_head_without_room_is_not_overtaken_by_a_smaller_request() -> None:
    scheduler = make_scheduler(num_blocks=6, max_num_seqs=4)
    running = add(scheduler, "a", 12)
    run_step(scheduler)
    add(scheduler, "large", 16, first=50)
    add(scheduler, "small", 1, first=90)
    assert list(shares(run_step(scheduler))) == ["a"]
    scheduler.remove(running, SequenceState.FINISHED)
    assert list(shares(run_step(scheduler))) == ["large", "small"]


def test_a_prompt_takes_all_its_blocks_at_admission() -> None:
    scheduler = make_scheduler(max_num_seqs=1, max_num_batched_tokens=4)
    add(scheduler, "a", 18)
    assert len(run_step(scheduler).batch[0].block_table) == 5


def preempt_one(**config: Any) -> tuple[Scheduler, Sequence, Sequence]:
    """Two sequences fill a pool of 4 blocks; the next step needs one more, and takes it from the later one."""
    scheduler = make_scheduler(num_blocks=4, max_num_seqs=4, **config)
    first, second = add(scheduler, "first", 8), add(scheduler, "second", 8, first=50)
    run_step(scheduler)
    plan = run_step(scheduler)
    assert plan.preempted == 1
    assert list(shares(plan)) == ["first"]
    return scheduler, first, second


def test_the_latest_sequence_is_preempted_and_waits_at_the_head() -> None:
    scheduler, _, second = preempt_one()
    add(scheduler, "third", 1)
    assert [sequence.request_id for sequence in scheduler.waiting] == ["second", "third"]
    assert (second.state, second.preemptions) == (SequenceState.WAITING, 1)
    assert (second.block_table, second.num_computed_tokens) == ((), 0)
    assert second.output_ids == [7]


def test_nobody_is_admitted_in_a_step_that_preempts() -> None:
    scheduler = make_scheduler(num_blocks=4, max_num_seqs=4)
    add(scheduler, "first", 8)
    add(scheduler, "second", 8, first=50)
    run_step(scheduler)
    add(scheduler, "small", 1, first=90, priority=-1)
    assert list(shares(run_step(scheduler))) == ["first"]


def test_the_lowest_priority_is_preempted_even_if_it_came_first() -> None:
    scheduler = make_scheduler(num_blocks=4, max_num_seqs=4)
    add(scheduler, "background", 8, priority=5)
    add(scheduler, "urgent", 8, priority=0, first=50)
    run_step(scheduler)
    assert list(shares(run_step(scheduler))) == ["urgent"]


def test_a_sequence_that_is_last_itself_gives_way() -> None:
    scheduler = make_scheduler(num_blocks=4, max_num_seqs=4)
    add(scheduler, "first", 9)
    second = add(scheduler, "second", 4, first=50)
    run_step(scheduler)
    plan = run_step(scheduler)
    assert list(shares(plan)) == ["first"]
    assert second.state is SequenceState.WAITING


@pytest.mark.parametrize(("prefix_cache", "cached_tokens"), [(True, 4), (False, 0)])
def test_a_preempted_sequence_resumes_with_what_the_cache_kept(prefix_cache: bool, cached_tokens: int) -> None:
    scheduler, first, second = preempt_one(prefix_cache=prefix_cache)
    scheduler.remove(first, SequenceState.ABORTED)
    plan = run_step(scheduler)
    # `first` needed one block: the tail of what `second` had left in the cache.
    assert plan.cached_tokens == cached_tokens
    assert plan.batch[0].token_ids == (*second.prompt_ids, 7)[cached_tokens:]
    assert plan.batch[0].num_output_tokens == 1
    assert (plan.prefill_tokens, plan.decode_tokens) == (9 - cached_tokens, 0)
    assert second.cached_tokens == 0


def test_a_preempted_sequence_past_the_budget_is_recomputed_in_chunks_even_without_chunked_prefill() -> None:
    limits = {"max_num_batched_tokens": 8, "max_num_seqs": 2, "chunked_prefill": False, "prefix_cache": False}
    scheduler = make_scheduler(num_blocks=4, **limits)
    first = add(scheduler, "first", 4)
    add(scheduler, "second", 4, first=50)
    for _ in range(6):
        plan = run_step(scheduler)
    assert plan.preempted == 1
    scheduler.remove(first, SequenceState.FINISHED)
    assert [shares(run_step(scheduler)) for _ in range(2)] == [{"second": 8}, {"second": 1}]


def test_a_prompt_whose_prefix_is_cached_computes_only_the_rest() -> None:
    scheduler = make_scheduler()
    add(scheduler, "a", 10)
    run_step(scheduler)
    again = add(scheduler, "b", 14)
    plan = run_step(scheduler)
    assert plan.cached_tokens == again.cached_tokens == 8
    assert shares(plan) == {"a": 1, "b": 6}
    assert plan.batch[1].block_table[:2] == plan.batch[0].block_table[:2]


def test_a_prompt_that_is_cached_whole_still_computes_its_last_block() -> None:
    scheduler = make_scheduler()
    add(scheduler, "a", 8)
    run_step(scheduler)
    add(scheduler, "b", 8)
    plan = run_step(scheduler)
    assert plan.cached_tokens == 4
    assert shares(plan) == {"a": 1, "b": 4}


def test_equal_prompts_computed_in_one_step_share_their_blocks_after_it() -> None:
    scheduler = make_scheduler()
    first, second = add(scheduler, "a", 8), add(scheduler, "b", 8)
    run_step(scheduler)
    assert first.block_table == second.block_table
    assert scheduler.pool.num_held == 2


def test_output_tokens_enter_the_prefix_cache_too() -> None:
    scheduler = make_scheduler()
    first = add(scheduler, "a", 3)
    for _ in range(6):
        run_step(scheduler)
    follow_up = Sequence("b", (*first.prompt_ids, *first.output_ids), SamplingParams())
    scheduler.add(follow_up)
    run_step(scheduler)
    assert follow_up.cached_tokens == 8


def test_an_abort_in_mid_chunk_frees_every_block() -> None:
    scheduler = make_scheduler(max_num_seqs=2, max_num_batched_tokens=6, prefix_cache=False)
    sequence = add(scheduler, "a", 20)
    run_step(scheduler)
    scheduler.remove(sequence, SequenceState.ABORTED)
    assert scheduler.pool.num_held == 0
    assert run_step(scheduler).batch == []


def test_an_abort_of_a_waiting_sequence_takes_only_that_one_out() -> None:
    scheduler = make_scheduler()
    sequences = [add(scheduler, name, 3) for name in "abc"]
    scheduler.remove(sequences[1], SequenceState.ABORTED)
    assert list(shares(run_step(scheduler))) == ["a", "c"]
