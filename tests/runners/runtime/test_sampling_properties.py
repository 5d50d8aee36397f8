"""Whatever its parameters, a request gives what it gives alone, in any batch, chunks, preemptions and cache hits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from letter_vocabulary import END, LetterVocabulary
from logits_executor import LogitsExecutor
from reference_executor import VOCAB_SIZE
from sampled_requests import Answer, Request, sampling_params, serve

from runners.runtime.sampling.grammar import StructureCompiler
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams, Structure

BLOCK_SIZE, MAX_TOKENS = 4, 10
COMPILER = StructureCompiler(LetterVocabulary, VOCAB_SIZE)
ROOMY = SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=512, prefix_cache=False)

prompts = st.lists(st.integers(0, 1), min_size=1, max_size=12).map(tuple)
requests_drawn = st.lists(st.builds(Request, prompts, sampling_params(VOCAB_SIZE, MAX_TOKENS)), min_size=1, max_size=6)


def alone(request: Request) -> Answer:
    ((answer,), _) = serve(LogitsExecutor(64, BLOCK_SIZE), COMPILER, [request], ROOMY)
    return answer


@settings(max_examples=80, deadline=None)
@given(
    requests=requests_drawn,
    num_blocks=st.integers(6, 14),
    num_seqs=st.integers(1, 4),
    budget=st.integers(4, 20),
    prefix_cache=st.booleans(),
)
def test_every_request_gives_what_it_gives_alone(
    requests: list[Request], num_blocks: int, num_seqs: int, budget: int, prefix_cache: bool
) -> None:
    config = SchedulerConfig(num_seqs, budget, prefix_cache)
    answers, preempted = serve(LogitsExecutor(num_blocks, BLOCK_SIZE), COMPILER, requests, config)
    event(f"preemptions: {min(preempted, 2)}")
    for request, answer in zip(requests, answers, strict=True):
        assert answer == alone(request)
        check_form(request, answer)


def check_form(request: Request, answer: Answer) -> None:
    """What was asked for came, once, and nothing else."""
    params = request.params
    assert answer.failure is None
    assert len(answer.embeddings) == params.embed
    assert len(answer.prompt_logprobs) == (params.prompt_logprobs is not None)
    for told in answer.prompt_logprobs:
        assert told[0] is None
        assert [entry.chosen.token_id for entry in told[1:] if entry] == list(request.prompt_ids[1:])
        assert all(entry is not None and len(entry.top) == params.prompt_logprobs for entry in told[1:])
    if params.embed:
        assert answer.token_ids == [] and answer.reason is None
        assert sum(value * value for value in answer.embeddings[0]) == pytest.approx(1.0, abs=1e-5)
        return
    assert answer.reason is not None and 0 < len(answer.token_ids) <= params.max_tokens
    for token_id, logprobs in zip(answer.token_ids, answer.logprobs, strict=True):
        assert (logprobs is None) == (params.logprobs is None)
        assert logprobs is None or (logprobs.chosen.token_id, len(logprobs.top)) == (token_id, params.logprobs)


def test_the_property_does_meet_preemptions_and_recomputed_prompt_logprobs() -> None:
    params = SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, prompt_logprobs=1, frequency_penalty=1.0)
    requests = [Request((0, 1) * 5, replace(params, seed=number, temperature=1.0)) for number in range(4)]
    answers, preempted = serve(LogitsExecutor(8, BLOCK_SIZE), COMPILER, requests, SchedulerConfig(4, 6))
    assert preempted > 0
    assert answers == [alone(request) for request in requests]


def test_a_prompt_whose_logprobs_are_asked_for_is_computed_though_it_is_cached() -> None:
    plain = Request((0, 1) * 6, SamplingParams(max_tokens=1))
    scored = Request((0, 1) * 6, SamplingParams(max_tokens=1, prompt_logprobs=0))
    answers, _ = serve(LogitsExecutor(16, BLOCK_SIZE), COMPILER, [plain, plain, scored], SchedulerConfig(1, 64))
    assert len(answers[2].prompt_logprobs[0]) == 12


@pytest.mark.parametrize(
    ("text", "params", "reason"),
    [
        ("a{3}", SamplingParams(), "stop"),
        ("a{3}", SamplingParams(ignore_eos=True), "stop"),
        ("a{3}", SamplingParams(min_tokens=9), "stop"),
        ("a+", SamplingParams(ignore_eos=True), "length"),
        ("a{30}", SamplingParams(), "length"),
    ],
)
def test_an_output_under_a_structure_ends_where_nothing_can_follow(
    text: str, params: SamplingParams, reason: str
) -> None:
    params = replace(params, max_tokens=12, structure=Structure("regex", text), stop_token_ids=(END,))
    answer = alone(Request((1, 0), params))
    assert answer.reason == reason
    assert LetterVocabulary().decode(answer.token_ids) == ("aaa" if reason == "stop" else "a" * 12)


def test_the_end_token_ends_a_structure_that_could_go_on_but_not_before_min_tokens() -> None:
    params = SamplingParams(max_tokens=12, min_tokens=4, structure=Structure("regex", "a+"), logit_bias=((END, 100.0),))
    answer = alone(Request((1, 0), params))
    assert answer.reason == "stop"
    assert answer.token_ids == [0, 0, 0, 0, END]


def test_a_stop_token_within_a_structure_is_text_until_the_structure_is_met() -> None:
    a, b = 0, 1
    params = SamplingParams(max_tokens=12, stop_token_ids=(a,), structure=Structure("regex", "aab*"))
    answer = alone(Request((1, 0), replace(params, logit_bias=((a, 100.0),))))
    assert answer.token_ids == [a, a, a]
    assert alone(Request((1, 0), replace(params, logit_bias=((b, 100.0),)))).token_ids == [a, a, *[b] * 10]
