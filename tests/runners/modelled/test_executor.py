"""The modelled executor under the real engine: virtual time, made-up tokens, no torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from modelled_engine import make_executor

from runners import models
from runners.chips import load_catalog
from runners.modelled.clock import VirtualClock
from runners.modelled.executor import ModelledExecutor, build_engine, make_token
from runners.runtime.engine import Engine, StepOutput
from runners.runtime.sequence import SamplingParams, Structure
from runners.spec import EngineSpec

H100 = next(chip for chip in load_catalog() if chip.chip_id == "h100-sxm")
SHAPE = models.get("smollm2-135m-instruct").shape


def made(**engine: object) -> tuple[ModelledExecutor, Engine]:
    spec = EngineSpec.model_validate(engine)
    executor = make_executor(H100, SHAPE, spec)
    return executor, build_engine(executor, spec)


def drain(engine: Engine, clock: VirtualClock | None = None) -> list[StepOutput]:
    """Steps until there is no work; `clock` moves by each step's time."""
    outputs = []
    while (output := engine.step()) is not None:
        outputs.append(output)
        if clock is not None:
            clock.advance(output.step.duration_s)
    return outputs


def test_steps_begin_by_the_clock_that_another_moves() -> None:
    executor, engine = made()
    engine.add("a", tuple(range(300)), SamplingParams(max_tokens=20))
    outputs = drain(engine, executor.clock)
    assert len(outputs) == 20
    assert executor.now() == pytest.approx(sum(output.step.duration_s for output in outputs))
    assert drain(engine) == [] and executor.now() == outputs[-1].step.start_s + outputs[-1].step.duration_s
    engine.add("b", (1, 2, 3), SamplingParams(max_tokens=5))
    assert {output.step.start_s for output in drain(engine)} == {executor.now()}


def test_the_same_requests_give_the_same_tokens_and_times() -> None:
    runs = []
    for _ in range(2):
        _, engine = made(max_num_batched_tokens=64)
        for number in range(5):
            engine.add(f"r{number}", tuple(range(number, number + 90)), SamplingParams(max_tokens=9, seed=number))
        runs.append(drain(engine))
    assert runs[0] == runs[1]


def test_a_made_up_token_is_in_the_vocabulary_and_never_a_stop_token() -> None:
    _, engine = made()
    stops = tuple(range(0, 49_152, 2))
    engine.add("a", (1, 2, 3), SamplingParams(max_tokens=50, seed=4, stop_token_ids=stops))
    tokens = [token for output in drain(engine) for token in output.tokens]
    assert len(tokens) == 50 and tokens[-1].finish_reason == "length"
    assert all(0 <= token.token_id < 49_152 and token.token_id not in stops for token in tokens)


@pytest.mark.parametrize("stop_token_ids", [(), (7919, 15_840)])
def test_tokens_of_several_steps_are_those_of_one_after_the_other(stop_token_ids: tuple[int, ...]) -> None:
    executor, _ = made()
    params = SamplingParams(max_tokens=90, seed=3, stop_token_ids=stop_token_ids)
    tokens = executor.decode_tokens(params, 5, 40)
    assert tokens == [make_token(params, index, executor.vocab_size) for index in range(5, 45)]


def test_every_sampling_parameter_is_taken_and_none_but_an_embedding_changes_the_output() -> None:
    plain = SamplingParams(max_tokens=8, seed=4)
    full = replace(
        plain,
        temperature=1.0,
        min_p=0.1,
        repetition_penalty=1.3,
        logit_bias=((1, 5.0),),
        bad_token_ids=((1, 2),),
        logprobs=3,
        prompt_logprobs=2,
        structure=Structure("json_object"),
    )
    _, engine = made()
    engine.add("plain", (1, 2, 3), plain)
    engine.add("full", (1, 2, 3), full)
    engine.add("embed", (1, 2, 3), replace(full, embed=True))
    outputs = drain(engine)
    plain_ids, full_ids = (
        [token.token_id for output in outputs for token in output.tokens if token.request_id == name]
        for name in ("plain", "full")
    )
    assert len(plain_ids) == 8 and plain_ids == full_ids
    ((embedded,),) = [output.embeddings for output in outputs if output.embeddings]
    assert (embedded.request_id, sum(value * value for value in embedded.embedding)) == ("embed", 1.0)


def test_facts_say_that_the_figures_are_modelled_and_how_far_they_are_to_be_trusted() -> None:
    executor, _ = made(weights="int8")
    facts = executor.facts()
    assert facts["modelled"] is True and facts["calibration"] == "calibrated"
    assert facts["engine_profile"] == "vLLM"
    scope = facts["calibration_scope"]
    assert (scope["engine"], scope["family"], scope["precision"]) == ("vLLM", "hopper", "int8")
    assert scope["fitted_on"] == "h100-sxm itself, with vLLM in other precisions"
    assert facts["calibration_errors"]["latency"]["n"] >= 12
    assert facts["peaks"] == {"flops_per_s": 1979e12, "bytes_per_s": 3.35e12}
    assert facts["weights_native"] is True


def test_a_modelled_node_never_loads_torch() -> None:
    code = "import sys, runners.load.virtual, runners.modelled.executor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
