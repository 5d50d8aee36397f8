"""The sample model gives the same greedy tokens in a busy engine as alone and without a cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from limited_pool import LimitedPool
from plain_forward import Plain

from runners.runtime.engine import Engine, SchedulerConfig
from runners.runtime.kernels import onednn, portable
from runners.runtime.sequence import SamplingParams
from runners.runtime.tokenizer import Tokenizer
from runners.runtime.torch_executor import TorchExecutor, build

PROMPTS = (
    "The capital of France is",
    "The capital of France is Paris, and the capital of Italy is",
    "Once upon a time there was a small, curious",
    "List three colours of the rainbow:",
    "def fibonacci(n):",
    "Water boils at",
)
NUM_TOKENS = 14


def serve(executor: TorchExecutor, prompts: list[tuple[int, ...]]) -> tuple[dict[str, list[int]], int, int]:
    """Outputs by prompt, with the counts of preemptions and of tokens found in the prefix cache."""
    config = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=11, prefix_cache=True, chunked_prefill=True)
    engine = Engine(LimitedPool(executor, 8), config)
    for index, prompt in enumerate(prompts):
        engine.add(str(index), prompt, SamplingParams(max_tokens=NUM_TOKENS, ignore_eos=True))
    outputs: dict[str, list[int]] = {str(index): [] for index in range(len(prompts))}
    preempted = cached = 0
    while engine.has_work:
        step = engine.step()
        assert step is not None
        preempted, cached = preempted + step.step.preempted, cached + step.step.cached_tokens
        for token in step.tokens:
            outputs[token.request_id].append(token.token_id)
    return outputs, preempted, cached


@pytest.mark.parametrize("weights", ["int8", "bf16"])
def test_a_busy_engine_gives_the_plain_tokens(sample_model: Path, weights: str) -> None:
    hold_exactness(sample_model, weights)


def test_bf16_kernels_that_sum_a_single_row_otherwise_differ_at_close_calls_alone(
    sample_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kernels in (onednn, portable):
        monkeypatch.setattr(kernels, "paired", lambda rows: rows)
    hold_exactness(sample_model, "bf16")


def hold_exactness(sample_model: Path, weights: str) -> None:
    executor = build(sample_model, weights=weights, num_blocks=32, block_size=8, max_model_len=128, threads=1)
    tokenizer = Tokenizer.from_path(sample_model)
    prompts = [tuple(tokenizer.encode(prompt)) for prompt in PROMPTS]
    prompts.append(prompts[1])
    outputs, preempted, cached = serve(executor, prompts)
    assert preempted > 0
    assert cached > 0
    plain = Plain(executor)
    for index, prompt in enumerate(prompts):
        assert len(outputs[str(index)]) == NUM_TOKENS
        plain.compare_tokens(prompt, outputs[str(index)])
    print(plain.report())
