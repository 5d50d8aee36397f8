"""Requests with all kinds of sampling parameters, and an engine that serves them: what the properties draw from."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from runners.runtime.engine import Engine, FinishReason
from runners.runtime.executor import Executor
from runners.runtime.sampling.grammar import StructureCompiler
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams, Structure, TokenLogprobs

STRUCTURES = (
    Structure("json_object"),
    Structure("json_schema", '{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}'),
    Structure("regex", "[ab]{2,5}c?"),
    Structure("choice", '["a", "ab", "abc"]'),
    Structure("grammar", 'start: "a" start "b" | "c"'),
)


@dataclass
class Answer:
    """All that the engine said of one request."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs | None] = field(default_factory=list)
    prompt_logprobs: list[tuple[TokenLogprobs | None, ...]] = field(default_factory=list)
    embeddings: list[tuple[float, ...]] = field(default_factory=list)
    reason: FinishReason | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Request:
    prompt_ids: tuple[int, ...]
    params: SamplingParams


def sampling_params(vocab_size: int, max_tokens: int) -> st.SearchStrategy[SamplingParams]:
    """Anything that the engine takes, with few tokens named, so that they matter."""
    few = st.integers(0, 7)
    penalty = st.sampled_from([0.0, 0.0, -0.7, 1.5])
    return st.builds(
        SamplingParams,
        max_tokens=st.just(max_tokens),
        min_tokens=st.integers(0, max_tokens),
        temperature=st.sampled_from([0.0, 0.8, 2.0]),
        top_k=st.sampled_from([0, 3, vocab_size]),
        top_p=st.sampled_from([1.0, 0.7]),
        min_p=st.sampled_from([0.0, 0.2]),
        seed=st.integers(0, 3),
        ignore_eos=st.booleans(),
        stop_token_ids=st.lists(few, max_size=3).map(tuple),
        repetition_penalty=st.sampled_from([1.0, 1.0, 0.8, 1.6]),
        presence_penalty=penalty,
        frequency_penalty=penalty,
        logit_bias=st.dictionaries(few, st.sampled_from([-100.0, 1.5]), max_size=2).map(lambda d: tuple(d.items())),
        bad_token_ids=st.lists(st.lists(few, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
        logprobs=st.sampled_from([None, 0, 3]),
        prompt_logprobs=st.sampled_from([None, None, 0, 2]),
        structure=st.none() | st.sampled_from(STRUCTURES),
        embed=st.sampled_from([False, False, False, True]),
    )


def serve(
    executor: Executor, compiler: StructureCompiler, requests: list[Request], config: SchedulerConfig
) -> tuple[list[Answer], int]:
    """The answers, and how often a sequence was preempted. Two requests come between any two steps."""
    engine = Engine(executor, config)
    answers = [Answer() for _ in requests]
    waiting, preempted = list(enumerate(requests)), 0
    while waiting or engine.has_work:
        for number, request in waiting[:2]:
            add(engine, compiler, str(number), request)
        waiting = waiting[2:]
        preempted += take_step(engine, answers)
        engine.check_integrity()
    assert engine.step() is None
    return answers, preempted


def add(engine: Engine, compiler: StructureCompiler, name: str, request: Request) -> None:
    structure = request.params.structure
    state = compiler.compile(structure, request.params) if structure and not request.params.embed else None
    engine.add(name, request.prompt_ids, request.params, structure=state)


def take_step(engine: Engine, answers: list[Answer]) -> int:
    output = engine.step()
    assert output is not None
    for told in output.prompt_logprobs:
        answers[int(told.request_id)].prompt_logprobs.append(told.logprobs)
    for token in output.tokens:
        answer = answers[int(token.request_id)]
        assert answer.reason is None
        answer.token_ids.append(token.token_id)
        answer.logprobs.append(token.logprobs)
        answer.reason = token.finish_reason
    for embedded in output.embeddings:
        answers[int(embedded.request_id)].embeddings.append(embedded.embedding)
    for failure in output.failures:
        answers[int(failure.request_id)].failure = failure.message
    return output.step.preempted
