"""Blocks that outlast their request, as a prefill engine's do until another engine has them."""

from __future__ import annotations

import pytest
from reference_executor import ReferenceExecutor
from steady_executor import VirtualExecutor

from runners.runtime.engine import Engine, RequestRejected
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams

PROMPT = (1, 2, 3, 4, 5)
FIRST_TOKEN = SamplingParams(max_tokens=1)


def make_engine(num_blocks: int = 8) -> Engine:
    return Engine(ReferenceExecutor(num_blocks, 4), SchedulerConfig())


def test_a_finished_request_holds_its_blocks_until_they_are_released() -> None:
    engine = make_engine()
    engine.add("a", PROMPT, FIRST_TOKEN, keep_kv=True)
    output = engine.step()
    assert output is not None and output.tokens[0].finish_reason == "length"
    assert not engine.has_work and engine.step() is None
    engine.check_integrity()
    stats = engine.stats()
    assert (stats.running, stats.kv_used_blocks, stats.kv_used_slots) == (0, 2, 5)
    assert engine.kv_blocks().owners == {"a": 2}
    assert engine.release_kv("a")
    engine.check_integrity()
    stats = engine.stats()
    assert (stats.kv_used_blocks, stats.kv_used_slots, stats.kv_cached_blocks) == (0, 0, 1)
    assert not engine.release_kv("a")


def test_others_wait_for_the_blocks_that_are_kept() -> None:
    engine = make_engine(num_blocks=3)
    engine.add("a", PROMPT, FIRST_TOKEN, keep_kv=True)
    engine.add("b", PROMPT[::-1], FIRST_TOKEN)
    engine.step()
    assert engine.stats().waiting == 1
    engine.release_kv("a")
    output = engine.step()
    assert output is not None and output.tokens[0].request_id == "b"


def test_what_is_kept_serves_later_prefixes_too() -> None:
    engine = make_engine()
    engine.add("a", PROMPT, FIRST_TOKEN, keep_kv=True)
    engine.step()
    assert engine.count_prefix(PROMPT) == 4
    engine.add("b", PROMPT, SamplingParams(max_tokens=3))
    output = engine.step()
    assert output is not None
    assert (output.step.cached_tokens, output.step.kv_used_blocks, output.step.kv_used_slots) == (4, 3, 6)
    assert engine.kv_blocks().shared == 1


def test_an_id_is_in_use_as_long_as_its_blocks_are() -> None:
    engine = make_engine()
    engine.add("a", PROMPT, FIRST_TOKEN, keep_kv=True)
    engine.step()
    with pytest.raises(RequestRejected, match="request_id: a"):
        engine.add("a", PROMPT, FIRST_TOKEN)
    engine.release_kv("a")
    engine.add("a", PROMPT, FIRST_TOKEN)


def test_an_aborted_request_keeps_nothing() -> None:
    engine = make_engine()
    engine.add("a", PROMPT, SamplingParams(max_tokens=9), keep_kv=True)
    engine.step()
    assert engine.abort("a")
    assert engine.stats().kv_used_blocks == 0
    assert not engine.release_kv("a")


def test_steps_taken_together_count_what_is_kept() -> None:
    steps = []
    for together in (False, True):
        executor = VirtualExecutor(16, 4)
        engine = Engine(executor, SchedulerConfig())
        engine.add("kept", PROMPT, FIRST_TOKEN, keep_kv=True)
        engine.add("a", PROMPT[::-1], SamplingParams(max_tokens=9))
        first = engine.step()
        assert first is not None
        executor.now_s = first.step.duration_s
        if together:
            run = engine.run_steady()
            assert run is not None
            steps.append(list(run.events(engine.numbers)))
            continue
        steps.append([])
        while output := engine.step():
            steps[0].append(output.step)
            executor.now_s = output.step.start_s + output.step.duration_s
    assert steps[0] == steps[1]
    assert steps[0][0].kv_used_slots == 5 + 6


def test_the_length_of_a_cached_prefix_is_told_without_the_last_token() -> None:
    engine = make_engine()
    assert engine.count_prefix(PROMPT) == 0
    engine.add("a", (*PROMPT, 6, 7, 8), FIRST_TOKEN)
    engine.step()
    assert [engine.count_prefix((*PROMPT, 6, 7, 8)[:length]) for length in (1, 4, 5, 8)] == [0, 0, 4, 4]
    assert engine.count_prefix((*PROMPT, 6, 7, 8, 9)) == 8
