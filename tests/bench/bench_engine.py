"""What the engine itself costs per decode step, with an executor that computes nothing.

Run by hand: `python -m tests.bench.bench_engine`. Printed beside the figure is the ceiling it must stay far below:
0.3 ms for 8 sequences, and in proportion for more or fewer.
"""

from __future__ import annotations

import time

from runners.runtime.engine import Engine
from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams

CEILING_S_PER_SEQUENCE = 0.3e-3 / 8


class IdleExecutor:
    """Samples token 1 for everyone in no time."""

    num_blocks = 16_384
    block_size = 32
    max_model_len = 16_384
    vocab_size = 50_000

    def now(self) -> float:
        return time.monotonic()

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        return StepResult({share.request_id: 1 for share in batch if share.sample}, 0.0)


def measure_step_s(num_seqs: int, prompt_len: int, num_steps: int = 500) -> float:
    engine = Engine(IdleExecutor(), SchedulerConfig(num_seqs, 8192))
    for number in range(num_seqs):
        prompt = tuple(range(number, number + prompt_len))
        engine.add(str(number), prompt, SamplingParams(max_tokens=num_steps + 100))
    decoding = 0
    while decoding < num_seqs:
        output = engine.step()
        decoding = output.step.decode_tokens if output else num_seqs
    start = time.perf_counter()
    for _ in range(num_steps):
        engine.step()
    return (time.perf_counter() - start) / num_steps


def main() -> None:
    print(f"{'sequences':>9} {'prompt':>7} {'µs/step':>9} {'ceiling':>9}")
    for num_seqs, prompt_len in [(1, 500), (8, 500), (8, 8000), (64, 500)]:
        step_s = measure_step_s(num_seqs, prompt_len)
        print(f"{num_seqs:9} {prompt_len:7} {step_s * 1e6:9.1f} {CEILING_S_PER_SEQUENCE * num_seqs * 1e6:9.1f}")


if __name__ == "__main__":
    main()
