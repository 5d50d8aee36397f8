"""Documents for tests of the experiment document."""

from __future__ import annotations

import copy
from typing import Any

SMALLEST: dict[str, Any] = {
    "name": "an experiment",
    "model": "smollm2-135m-instruct",
    "nodes": {},
    "workload": {"kind": "text", "arrival": {"kind": "closed", "max_concurrency": 2}, "num_requests": 5},
}


def document(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The smallest document, with values set by dotted path."""
    made = copy.deepcopy(SMALLEST)
    for path, value in (changes or {}).items():
        *parents, leaf = path.split(".")
        here = made
        for part in parents:
            here = here.setdefault(part, {})
        here[leaf] = value
    return made


# SPEC.md's example as it stands there.
WHOLE_EXAMPLE = """
name: Does 4-bit hold at 16 users?
question: Which precision serves a chat workload within the SLO at the lowest cost?
tags: [chat, quantization]
model: smollm2-135m-instruct        # a registered model, or shape: {layers, hidden_size, heads, kv_heads, …}
nodes:                              # which nodes may run it
  labels: {kind: measured}
chip: any
engine:
  kind: builtin
  kernels: auto
  weights: bf16
  activations: auto
  kv_cache: bf16
  max_num_seqs: 16
  max_num_batched_tokens: 2048
  block_size: 32
  prefix_cache: true
  scheduler: {policy: fcfs, chunked_prefill: true, itl_target_s: null}
  speculation: {kind: none}
  threads: auto
placement:
  replicas: 1
  tensor_parallel: 1
  pipeline_parallel: 1
  disaggregate: none
  router: {policy: round_robin}
workload:
  kind: synthetic
  input_len: {dist: lognormal, median_tokens: 220, sigma: 0.6, max_tokens: 1500}
  output_len: {dist: uniform, min_tokens: 32, max_tokens: 200}
  shared_prefix: {groups: 4, prefix_tokens: 128}
  arrival: {kind: closed, max_concurrency: 16}
  num_requests: 400
  warmup: {num_requests: 32}
  classes: []
  sampling: {temperature: 0.0, ignore_eos: true}
slo: {ttft_s: {p95: 0.8}, tpot_s: {p95: 0.06}}
quality: {text: shipped, tasks: [arithmetic], floor: {perplexity_ratio: 1.05}}
cost: {usd_per_hour: node, watts: measured}
matrix:
  engine.weights: [bf16, int8, int4]
  workload.arrival.max_concurrency: [1, 8, 16, 32]
exclude:
  - {engine.weights: int4, workload.arrival.max_concurrency: 1}
design: factorial
search: null
baseline: {engine.weights: bf16}
repeats: 3
order: interleaved
seed: 20261130
budget: {max_runs: 200, max_seconds: 7200}
retries: 1
"""
