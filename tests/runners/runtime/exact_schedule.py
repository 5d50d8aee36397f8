"""Runs a small, mixed schedule on a tiny model and holds every token against the plain forward; prints the facts.

`python exact_schedule.py MODEL.gguf THREADS [no-bf16]`: a process of its own, as the instruction sets that oneDNN, MKL
and torch may use are read once, from the environment. With `no-bf16`, float32 products stay float32, as they do on a
chip without bf16 instructions.
"""

from __future__ import annotations

import json
import sys

import torch
from plain_forward import Plain

from runners.runtime import torch_executor
from runners.runtime.engine import Engine, SchedulerConfig
from runners.runtime.sequence import SamplingParams

PROMPT_LENGTHS = (3, 40, 90, 530, 41)
NUM_TOKENS = 5


def keep_float32() -> None:
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"


def serve(executor: torch_executor.TorchExecutor, prompts: list[tuple[int, ...]]) -> dict[str, list[int]]:
    config = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=75, prefix_cache=True, chunked_prefill=True)
    engine = Engine(executor, config)
    for index, prompt in enumerate(prompts):
        engine.add(str(index), prompt, SamplingParams(max_tokens=NUM_TOKENS, ignore_eos=True))
    outputs: dict[str, list[int]] = {str(index): [] for index in range(len(prompts))}
    while engine.has_work:
        step = engine.step()
        for token in step.tokens if step else ():
            outputs[token.request_id].append(token.token_id)
    return outputs


def main() -> None:
    path, threads, *flags = sys.argv[1:]
    if "no-bf16" in flags:
        torch_executor.use_bf16_products = keep_float32
    text = tuple(3 + (7 * i * i + 11 * i) % 260 for i in range(600))
    prompts = [text[:length] for length in PROMPT_LENGTHS] + [text[41:80]]
    for weights in ("int8", "bf16"):
        executor = torch_executor.build(
            path, weights=weights, block_size=16, num_blocks=96, max_model_len=640, threads=int(threads)
        )
        outputs = serve(executor, prompts)
        plain = Plain(executor)
        for index, prompt in enumerate(prompts):
            plain.compare_tokens(prompt, outputs[str(index)])
        counted = {"compared": plain.compared, "close_calls": plain.close_calls, "report": plain.report()}
        print(json.dumps(executor.facts() | counted))


if __name__ == "__main__":
    main()
