"""Closed loops through the real scheduler: first tokens wait for what is before them, and no longer."""

from __future__ import annotations

import pytest

from runners import shapes
from runners.modelled.replay import ClosedLoop, Replay
from runners.modelled.shape import ModelShape
from runners.modelled.work import Counts

LLAMA = ModelShape.from_mapping(shapes.get("llama-3-8b").to_mapping())
TOKEN_S = 1e-3


def tokens_s(counts: Counts) -> float:
    """A chip that takes as long as it has tokens."""
    return counts.tokens * TOKEN_S


def loop(**fields: object) -> ClosedLoop:
    values = {"concurrency": 1, "num_requests": 3, "input_tokens": 100, "output_tokens": 10,
              "max_num_batched_tokens": 8192, "max_num_seqs": 64, "jitter": False}  # fmt: skip
    return ClosedLoop(**values | fields)  # type: ignore[arg-type]


def test_one_request_at_a_time_waits_for_its_own_prompt() -> None:
    assert Replay(LLAMA, loop(), tokens_s).run() == pytest.approx([0.1, 0.1, 0.1])


def test_requests_that_arrive_together_are_prefilled_within_the_budget_in_order() -> None:
    times = Replay(LLAMA, loop(concurrency=4, num_requests=4, max_num_batched_tokens=200), tokens_s).run()
    # Two prompts fit a step; the next has two decodes and what the budget leaves of two prompts.
    assert times[:2] == pytest.approx([0.2, 0.2])
    assert times[2] == pytest.approx(0.4)
    assert 0.4 < times[3] < 0.42


def test_a_sequence_that_the_limit_keeps_out_waits_for_another_to_end() -> None:
    times = Replay(LLAMA, loop(concurrency=2, num_requests=2, max_num_seqs=1), tokens_s).run()
    assert times == pytest.approx([0.1, 0.1 + 9 * TOKEN_S + 0.1])


def test_slow_prefills_take_longer_and_decodes_do_not() -> None:
    times = Replay(LLAMA, loop(concurrency=2, num_requests=2, max_num_seqs=1, slow_prefill=2.0), tokens_s).run()
    assert times == pytest.approx([0.2, 0.2 + 9 * TOKEN_S + 0.2])


def test_a_prefill_pool_lets_a_request_go_and_takes_the_next_when_it_ends_elsewhere() -> None:
    times = Replay(LLAMA, loop(concurrency=2, num_requests=4, decode_elsewhere_s=1.0), tokens_s).run()
    assert len(times) == 4
    assert times == pytest.approx([0.2, 0.2, 0.2, 0.2])


def test_the_same_seed_gives_the_same_times() -> None:
    runs = [Replay(LLAMA, loop(concurrency=8, num_requests=24, jitter=True), tokens_s, seed=5).run() for _ in range(2)]
    assert runs[0] == runs[1] and len(set(runs[0])) > 3


def test_groups_that_step_together_wait_for_the_one_that_prefills() -> None:
    """Two prompts in two groups take one prompt's time; three take two prompts', as one group has two of them."""
    pair = Replay(LLAMA, loop(concurrency=2, num_requests=2, groups=2), tokens_s).run()
    assert pair == pytest.approx([0.1, 0.1])
    three = Replay(LLAMA, loop(concurrency=3, num_requests=3, groups=2), tokens_s).run()
    assert three == pytest.approx([0.2, 0.2, 0.2])
