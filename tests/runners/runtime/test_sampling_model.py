"""Sampling over a real model: logprobs and embeddings against transformers, and independence of the batch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from limited_pool import LimitedPool
from reference_llama import load_reference, reference_logits
from sampled_requests import Answer, Request, sampling_params, serve
from tiny_model import TinyModel, write_tiny_model

from runners.runtime.sampling.grammar import StructureCompiler
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams, Structure
from runners.runtime.tokenizer import Tokenizer
from runners.runtime.torch_executor import TorchExecutor, build

PROMPT = tuple(range(20, 100))
ALONE = SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=1024, prefix_cache=False)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", TinyModel(seed=4))


@pytest.fixture(scope="module")
def exact(tiny: Path) -> TorchExecutor:
    """int8, whose output does not depend on the batch on any chip."""
    return build(tiny, weights="int8", block_size=16, num_blocks=128, max_model_len=1024, threads=1)


@pytest.fixture(scope="module")
def compiler(tiny: Path, exact: TorchExecutor) -> StructureCompiler:
    return StructureCompiler(lambda: Tokenizer.from_path(tiny), exact.vocab_size)


def answer_of(executor: TorchExecutor, params: SamplingParams, config: SchedulerConfig = ALONE) -> Answer:
    ((answer,), _) = serve(executor, StructureCompiler(_no_vocabulary, 0), [Request(PROMPT, params)], config)
    return answer


def _no_vocabulary() -> Tokenizer:
    raise AssertionError("no structure was asked for")


def test_an_embedding_is_the_normed_hidden_state_of_the_last_token(tiny: Path) -> None:
    executor = build(tiny, num_blocks=16, max_model_len=256, threads=1)
    with torch.inference_mode():
        reference = load_reference(tiny, torch.float32).model(torch.tensor([PROMPT])).last_hidden_state[0, -1]
    for config in (ALONE, SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=7)):
        (embedding,) = answer_of(executor, SamplingParams(embed=True), config).embeddings
        ours = torch.tensor(embedding)
        assert float(ours.norm()) == pytest.approx(1.0, abs=1e-5)
        assert float(torch.cosine_similarity(ours, reference, dim=0)) > 0.999


def test_prompt_logprobs_are_those_of_transformers_whatever_the_chunks(tiny: Path) -> None:
    executor = build(tiny, num_blocks=16, max_model_len=256, threads=1)
    expected = torch.log_softmax(reference_logits(load_reference(tiny, torch.float32), PROMPT), dim=-1)
    for config in (ALONE, SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=7)):
        answer = answer_of(executor, SamplingParams(max_tokens=1, logprobs=3, prompt_logprobs=3), config)
        (first, *told), (drawn,) = answer.prompt_logprobs[0], answer.logprobs
        assert first is None and drawn is not None
        for entry, row in zip([*told, drawn], expected, strict=True):
            assert entry is not None
            for token in (entry.chosen, *entry.top):
                assert token.logprob == pytest.approx(float(row[token.token_id]), abs=0.25)
        assert [entry.chosen.token_id for entry in told if entry] == list(PROMPT[1:])


texts = st.lists(st.integers(3, 269), min_size=1, max_size=60).map(tuple)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shared=texts,
    drawn=st.lists(st.tuples(texts, sampling_params(270, 12)), min_size=2, max_size=5),
    num_blocks=st.integers(9, 30),
    budget=st.integers(8, 90),
)
def test_every_request_gives_to_the_bit_what_it_gives_alone(
    exact: TorchExecutor,
    compiler: StructureCompiler,
    shared: tuple[int, ...],
    drawn: list[tuple[tuple[int, ...], SamplingParams]],
    num_blocks: int,
    budget: int,
) -> None:
    requests = [Request(shared + text, params) for text, params in drawn]
    config = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=budget)
    answers, _ = serve(LimitedPool(exact, num_blocks), compiler, requests, config)
    for request, answer in zip(requests, answers, strict=True):
        ((expected,), _) = serve(exact, compiler, [request], ALONE)
        assert answer == expected


def test_the_sample_model_fills_in_a_schema_at_any_temperature(sample_model: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "size": {"type": "integer", "minimum": 0, "maximum": 99},
            "kind": {"enum": ["town", "city"]},
        },
        "required": ["city", "size", "kind"],
        "additionalProperties": False,
    }
    executor = build(sample_model, weights="int8", num_blocks=32, max_model_len=256, threads=2)
    tokenizer = Tokenizer.from_path(sample_model)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "Describe Paris as JSON."}])
    params = SamplingParams(
        max_tokens=120, stop_token_ids=tokenizer.eos_ids, structure=Structure("json_schema", json.dumps(schema))
    )
    token_ids = tuple(tokenizer.encode(prompt, add_special=False))
    requests = [Request(token_ids, replace(params, temperature=temperature)) for temperature in (0.0, 1.0, 2.0)]
    compiler = StructureCompiler(lambda: tokenizer, executor.vocab_size)
    answers, _ = serve(executor, compiler, requests, SchedulerConfig(max_num_seqs=3))
    for answer in answers:
        assert answer.reason == "stop"
        assert jsonschema_rs.is_valid(schema, json.loads(tokenizer.decode(answer.token_ids)))
