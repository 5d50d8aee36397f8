"""Structures and embeddings through the engine's loop: compiled beside the steps, refused or failed by their field."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from letter_vocabulary import LetterVocabulary
from logits_executor import LogitsExecutor
from loop_in_thread import DEADLINE_S, LoopInThread
from reference_executor import VOCAB_SIZE

from runners.runtime.sampling.grammar import GrammarState, StructureCompiler
from runners.runtime.sampling.structure import StructureError
from runners.runtime.sequence import SamplingParams, Structure
from runners.runtime.serving.messages import (
    Abort,
    Aborted,
    Accepted,
    Add,
    Progress,
    Rejected,
)


class GatedCompiler(StructureCompiler):
    """Compiles when the test lets it, and only then."""

    def __init__(self) -> None:
        super().__init__(LetterVocabulary, VOCAB_SIZE)
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)

    def compile(self, structure: Structure, params: SamplingParams) -> GrammarState:
        self.begun.release()
        assert self.may_end.acquire(timeout=DEADLINE_S)
        if structure.text == "panic":
            raise KeyboardInterrupt("as a panic of the library, no Exception")
        return super().compile(structure, params)


class Harness(LoopInThread):
    def __init__(self) -> None:
        self.compiler = GatedCompiler()
        super().__init__(LogitsExecutor(16, 4), self.compiler)

    def progress(self) -> Progress:
        report = self.receive()
        assert isinstance(report, Progress)
        return report

    def await_compilation(self) -> None:
        assert self.compiler.begun.acquire(timeout=DEADLINE_S)


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness()
    yield running
    running.end(running.compiler.may_end)


def add(key: str, structure: Structure | None = None, **fields: object) -> Add:
    return Add(key, (1, 2, 3, 4, 5), SamplingParams(**{"max_tokens": 8, "structure": structure, **fields}), 0)  # type: ignore[arg-type]


def test_others_run_to_their_end_while_a_structure_is_compiled(harness: Harness) -> None:
    harness.send(add("shaped", Structure("regex", "a{3}")))
    harness.await_compilation()
    harness.send(add("free"))
    assert harness.receive() == Accepted("free")
    reason = None
    while reason is None:
        ((key, _, reason, _, _),) = harness.progress().tokens
        assert key == "free"
    harness.compiler.may_end.release()
    assert harness.receive() == Accepted("shaped")
    told = [token for _ in range(3) for token in harness.progress().tokens]
    assert [(token_id, reason) for _, token_id, reason, _, _ in told] == [(0, None), (0, None), (0, "stop")]


@pytest.mark.parametrize("text", ["a(", "panic"])
def test_a_structure_that_cannot_be_compiled_is_rejected_by_the_clients_name_for_it(
    harness: Harness, text: str
) -> None:
    harness.compiler.may_end.release()
    harness.send(add("a", Structure("regex", text, field="structured_outputs.regex")))
    rejected = harness.receive()
    assert isinstance(rejected, Rejected)
    assert (rejected.key, rejected.field) == ("a", "structured_outputs.regex")
    assert rejected.message.startswith("structured_outputs.regex: ")
    assert not harness.engine.has_work


def test_other_faults_of_the_request_are_told_before_anything_is_compiled(harness: Harness) -> None:
    harness.send(add("a", Structure("regex", "a"), min_p=2.0))
    rejected = harness.receive()
    assert isinstance(rejected, Rejected)
    assert rejected.field == "min_p"
    assert not harness.compiler.begun.acquire(blocking=False)


def test_a_request_that_is_aborted_while_its_structure_is_compiled_never_runs(harness: Harness) -> None:
    harness.send(add("a", Structure("regex", "a")))
    harness.await_compilation()
    harness.send(Abort("a"))
    aborted = harness.receive()
    assert isinstance(aborted, Aborted) and aborted.timing is None
    harness.compiler.may_end.release(2)
    harness.send(add("b", Structure("regex", "a")))
    assert harness.receive() == Accepted("b")
    ((key, _, reason, _, _),) = harness.progress().tokens
    assert (key, reason) == ("b", "stop")


def test_a_structure_that_fails_on_the_way_ends_its_request_alone(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = GrammarState.advance

    def fail_at_the_third(state: GrammarState, token_id: int) -> None:
        advance(state, token_id)
        if state._num_tokens == 3:
            raise StructureError("it is too complex")

    monkeypatch.setattr(GrammarState, "advance", fail_at_the_third)
    harness.compiler.may_end.release()
    harness.send(add("shaped", Structure("regex", "a+"), ignore_eos=True))
    assert harness.receive() == Accepted("shaped")
    seen = [harness.progress() for _ in range(3)]
    assert [len(progress.tokens) for progress in seen] == [1, 1, 0]
    assert seen[-1].failures == (("shaped", "response_format", "response_format: it is too complex"),)
    assert (seen[-1].stats.running, seen[-1].stats.kv_used_blocks) == (0, 0)


def test_an_embedding_and_prompt_logprobs_come_with_the_step_that_ends_the_prompt(harness: Harness) -> None:
    harness.send(add("a", embed=True, prompt_logprobs=2))
    assert harness.receive() == Accepted("a")
    progress = harness.progress()
    ((key, embedding, timing),) = progress.embeddings
    assert (key, len(embedding), progress.tokens) == ("a", VOCAB_SIZE, ())
    assert timing.queued_s <= timing.finished_s
    ((key, logprobs),) = progress.prompt_logprobs
    assert [entry and entry.chosen.token_id for entry in logprobs] == [None, 2, 3, 4, 5]
    assert progress.stats.kv_used_blocks == 0
