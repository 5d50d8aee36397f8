"""The engine process's loop, on a real engine: commands are obeyed between any two steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from multiprocessing import Pipe

import pytest
from letter_vocabulary import LetterVocabulary
from loop_in_thread import DEADLINE_S, LoopInThread
from reference_executor import ReferenceExecutor

from runners.runtime.engine import Engine
from runners.runtime.executor import Executor, ScheduledSequence, StepResult
from runners.runtime.sampling.grammar import StructureCompiler
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams
from runners.runtime.serving.engine_process import EngineLoop
from runners.runtime.serving.messages import (
    Abort,
    Aborted,
    Accepted,
    Add,
    Progress,
    Rejected,
)


class GatedExecutor(ReferenceExecutor):
    """Each step waits until the test lets it go on, so that a command can be sent in the midst of one."""

    def __init__(self) -> None:
        super().__init__(num_blocks=16, block_size=4)
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        self.begun.release()
        assert self.may_end.acquire(timeout=DEADLINE_S)
        return super().execute(batch)


def compiler_of(executor: Executor) -> StructureCompiler:
    return StructureCompiler(LetterVocabulary, executor.vocab_size)


class Harness(LoopInThread):
    def __init__(self) -> None:
        self.executor = GatedExecutor()
        super().__init__(self.executor, compiler_of(self.executor))

    def await_step(self) -> None:
        assert self.executor.begun.acquire(timeout=DEADLINE_S)

    def end_step(self) -> None:
        self.executor.may_end.release()


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness()
    yield running
    running.end(running.executor.may_end)


def add(key: str, prompt_len: int, max_tokens: int = 30) -> Add:
    return Add(key, tuple(range(prompt_len)), SamplingParams(max_tokens=max_tokens), 0)


@pytest.mark.parametrize(("prompt_len", "steps_before"), [(30, 1), (4, 3)], ids=["in prefill", "in decode"])
def test_an_abort_in_the_midst_of_a_step_frees_all_blocks_before_the_next(
    harness: Harness, prompt_len: int, steps_before: int
) -> None:
    harness.send(add("a", prompt_len))
    assert harness.receive() == Accepted("a")
    for _ in range(steps_before - 1):
        harness.await_step()
        harness.end_step()
        assert isinstance(harness.receive(), Progress)
    harness.await_step()
    harness.send(Abort("a"))
    harness.end_step()
    assert isinstance(harness.receive(), Progress)
    aborted = harness.receive()
    assert isinstance(aborted, Aborted)
    assert (aborted.stats.running, aborted.stats.waiting, aborted.stats.kv_used_blocks) == (0, 0, 0)
    assert len(harness.executor.batches) == steps_before


def test_an_abort_tells_the_times_of_a_sequence_that_had_begun_to_answer(harness: Harness) -> None:
    harness.send(add("a", 4))
    harness.receive()
    harness.await_step()
    harness.send(Abort("a"))
    harness.end_step()
    harness.receive()
    aborted = harness.receive()
    assert isinstance(aborted, Aborted)
    assert aborted.timing is not None
    assert aborted.timing.queued_s <= aborted.timing.prefill_done_s <= aborted.timing.finished_s


def test_a_request_that_cannot_be_served_is_rejected_by_its_field_and_the_loop_goes_on(
    harness: Harness,
) -> None:
    harness.send(add("a", 5000))
    rejected = harness.receive()
    assert isinstance(rejected, Rejected)
    assert (rejected.key, rejected.field) == ("a", "prompt")
    harness.send(add("b", 3, max_tokens=1))
    assert harness.receive() == Accepted("b")
    harness.await_step()
    harness.end_step()
    progress = harness.receive()
    assert isinstance(progress, Progress)
    ((key, _, reason, timing, _),) = progress.tokens
    assert (key, reason) == ("b", "length")
    assert timing is not None
    assert progress.stats.kv_used_blocks == 0


def test_an_abort_of_an_unknown_request_is_answered(harness: Harness) -> None:
    harness.send(Abort("nobody"))
    aborted = harness.receive()
    assert isinstance(aborted, Aborted)
    assert aborted.timing is None


def test_the_loop_ends_when_the_server_is_gone() -> None:
    ours, theirs = Pipe()
    engine = Engine(ReferenceExecutor(num_blocks=4, block_size=4), SchedulerConfig())
    ours.close()
    with pytest.raises(EOFError):
        EngineLoop(engine, theirs, compiler_of(engine.executor)).run()
