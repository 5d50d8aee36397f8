"""Steps per second of the built-in runtime on the sample model, beside what the memory allows.

Prints the measured read bandwidth and the ceiling it sets on decoding (weight bytes per step), then tokens per second
at batch 1, 8 and 32 and for a prefill of 512. Run by hand on a quiet machine:

    python -m pytest tests/bench/bench_step.py -m bench -s
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest
import torch

from runners import models
from runners.runtime.executor import ScheduledSequence
from runners.runtime.sequence import SamplingParams
from runners.runtime.torch_executor import TorchExecutor, build

CONTEXT, BLOCKS_PER_SEQUENCE = 200, 32
REPEATS = 15


@pytest.mark.bench
@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_tokens_per_second(weights: str) -> None:
    path = models.fetch("smollm2-135m-instruct")
    executor = build(path, weights=weights, num_blocks=32 * BLOCKS_PER_SEQUENCE, max_model_len=1024)
    facts = executor.facts()
    bandwidth = read_bandwidth()
    ceiling = bandwidth / facts["weight_bytes"]
    print(f"\n{facts['kernels']}, {facts['attention_products']} attention products, {facts['threads']} threads")
    print(f"batch-invariant: {facts['batch_invariant']}")
    print(f"reads {bandwidth / 1e9:.1f} GB/s, weights {facts['weight_bytes'] / 1e6:.0f} MB: ≤ {ceiling:.0f} steps/s")
    for batch in (1, 8, 32):
        step_s = median_s(lambda batch=batch: run_step(executor, batch, CONTEXT, 1))
        share = 1 / step_s / ceiling
        print(f"decode batch {batch:2}: {batch / step_s:7.1f} tok/s, {share:.0%} of the ceiling's steps")
    step_s = median_s(lambda: run_step(executor, 1, 0, 512))
    print(f"prefill 512:     {512 / step_s:7.1f} tok/s")
    assert step_s > 0


def run_step(executor: TorchExecutor, batch: int, start: int, count: int) -> None:
    tokens = tuple(range(1000, 1000 + count))
    executor.execute(
        tuple(
            ScheduledSequence(
                str(index),
                tokens,
                start,
                tuple(range(index * BLOCKS_PER_SEQUENCE, (index + 1) * BLOCKS_PER_SEQUENCE)),
                True,
                SamplingParams(),
                0,
            )
            for index in range(batch)
        )
    )


def median_s(run: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS + 2):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def read_bandwidth() -> float:
    """Bytes per second of summing 512 MB, far beyond any cache."""
    data = torch.ones(1 << 27, dtype=torch.float32)
    return data.nbytes / median_s(data.sum)
