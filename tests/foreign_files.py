"""Small result files as the tools write them, made from the field lists of their writers (vLLM 0.19, AIPerf 0.13,
GuideLLM 0.8, llm-d's schemas 0.1 and 0.2, InferenceX's aggregation), with times that are easy to check by hand.

Request i is sent at i × 0.1 s, has 100 input tokens and 5 output tokens, its first after 0.2 s and then one each
0.01 s; the last of `failed` requests fail.
"""

from __future__ import annotations

import json
from typing import Any

GAPS = [0.01] * 4
TTFT = 0.2
BASE_NS = 1_790_000_000_000_000_123


def vllm(n: int = 30, failed: int = 0, **changes: Any) -> dict[str, Any]:
    ok = n - failed
    return {
        "date": "20261201-020000", "endpoint_type": "openai", "backend": "openai", "label": None,
        "model_id": "meta-llama/Llama-3.1-8B", "tokenizer_id": "meta-llama/Llama-3.1-8B", "num_prompts": n,
        "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 2, "duration": n * 0.1 + 0.14, "completed": ok,
        "failed": failed, "total_input_tokens": 100 * ok, "total_output_tokens": 5 * ok,
        "request_throughput": ok / (n * 0.1 + 0.14), "request_goodput": None,
        "output_throughput": 5 * ok / (n * 0.1 + 0.14), "total_token_throughput": 105 * ok / (n * 0.1 + 0.14),
        "input_lens": [100] * n, "output_lens": [5] * ok + [0] * failed, "ttfts": [TTFT] * ok + [0.0] * failed,
        "itls": [GAPS] * ok + [[]] * failed, "start_times": [1000.5 + i * 0.1 for i in range(n)],
        "generated_texts": ["a \"quoted\" text ]} "] * n, "errors": [""] * ok + ["boom"] * failed,
        "mean_ttft_ms": 200.0, "median_ttft_ms": 200.0, "std_ttft_ms": 0.0, "p99_ttft_ms": 200.0,
        "mean_tpot_ms": 10.0, "median_tpot_ms": 11.0, "std_tpot_ms": 0.0, "p99_tpot_ms": 10.0,
        "mean_itl_ms": 10.0, "median_itl_ms": 10.0, "std_itl_ms": 0.0, "p99_itl_ms": 10.0, "rtfx": float("nan"),
        **changes,
    }  # fmt: skip


def aiperf_line(i: int, phase: str = "profiling", error: bool = False) -> dict[str, Any]:
    start = BASE_NS + i * 100_000_000
    record: dict[str, Any] = {
        "metadata": {
            "session_num": i, "x_request_id": f"req-{i}", "x_correlation_id": f"s-{i}", "turn_index": 0,
            "credit_issued_ns": start - 2_000_000, "request_start_ns": start, "request_end_ns": start + 240_000_000,
            "worker_id": "w", "record_processor_id": "r", "benchmark_phase": phase, "was_cancelled": False,
        },
        "metrics": {
            "time_to_first_token": {"value": 200.0, "unit": "ms"}, "request_latency": {"value": 240.0, "unit": "ms"},
            "inter_chunk_latency": {"value": [10.0] * 4, "unit": "ms"},
            "input_sequence_length": {"value": 100, "unit": "tokens"},
            "output_sequence_length": {"value": 5, "unit": "tokens"},
        },
        "error": None,
    }  # fmt: skip
    if error:
        record |= {"metrics": {}, "error": {"code": 500, "type": "ServerError", "message": "boom"}}
    return record


def aiperf_jsonl(n: int = 30) -> bytes:
    lines = [aiperf_line(i, "warmup" if i < 2 else "profiling") for i in range(n + 2)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def aiperf_summary() -> dict[str, Any]:
    def one(unit: str, value: float, **more: float) -> dict[str, Any]:
        return {"unit": unit, "avg": value, "p50": value, "p1": value / 2, "p5": value / 2, "p10": value / 2,
                "p90": value * 2, "p95": value * 2, "p99": value * 2, **more}  # fmt: skip

    return {
        "schema_version": "1.4", "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": 10.0},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 50.0},
        "request_latency": one("ms", 240.0, count=30), "time_to_first_token": one("ms", 200.0, count=30),
        "inter_token_latency": one("ms", 10.0, count=30), "inter_chunk_latency": one("ms", 9.0),
        "output_token_throughput_per_user": one("tokens/sec/user", 100.0, count=30),
        "request_count": {"unit": "requests", "avg": 30.0}, "benchmark_duration": {"unit": "sec", "avg": 3.0},
        "input_config": {"models": {"items": [{"name": "org/model-a"}]},
                         "phases": [{"name": "profiling", "type": "concurrency", "concurrency": 4}]},
    }  # fmt: skip


def guidellm_request(i: int, status: str = "successful") -> dict[str, Any]:
    start = 5000.0 + i * 0.1
    timings = {"targeted_start": start - 0.001, "resolve_start": start - 0.0005, "request_start": start,
               "first_token_iteration": start + 0.2, "last_token_iteration": start + 0.24,
               "token_iterations": 5, "request_end": start + 0.24, "resolve_end": start + 0.241}  # fmt: skip
    return {"type_": "generative_request_stats", "request_id": f"g-{i}",
            "info": {"timings": timings, "error": None if status == "successful" else "boom"},
            "input_metrics": {"text_tokens": 100, "cached_tokens": 0}, "output_metrics": {"text_tokens": 5},
            "prompt_tokens": 100, "output_tokens": 5}  # fmt: skip


def guidellm(n: int = 30, errored: int = 0) -> dict[str, Any]:
    def spread(value: float) -> dict[str, Any]:
        points = {"p50": value, "p90": value, "p95": value, "p99": value}
        return {"successful": {"mean": value, "median": value, "count": n, "percentiles": points, "pdf": [[value, 1]]},
                "errored": None, "incomplete": None, "total": None}  # fmt: skip

    def benchmark(strategy: dict[str, Any]) -> dict[str, Any]:
        return {
            "type_": "generative_benchmark",
            "config": {"strategy": strategy, "backend": {"model": "org/model-a"}},
            "start_time": 5000.0, "end_time": 5000.0 + n * 0.1 + 0.14, "duration": n * 0.1 + 0.14,
            "metrics": {
                "request_totals": {"successful": n, "errored": errored, "incomplete": 0, "total": n + errored},
                "requests_per_second": spread(9.5), "output_tokens_per_second": spread(47.0),
                "request_latency": spread(0.24), "time_to_first_token_ms": spread(200.0),
                "time_per_output_token_ms": spread(48.0), "inter_token_latency_ms": spread(10.0),
            },
            "requests": {
                "successful": [guidellm_request(i) for i in range(n)], "incomplete": [],
                "errored": [guidellm_request(n + i, "errored") for i in range(errored)], "total": None,
            },
        }  # fmt: skip

    return {
        "metadata": {"version": 2, "guidellm_version": "0.8.1"},
        "config": {},
        "benchmarks": [
            benchmark({"type_": "concurrent", "streams": 2}),
            benchmark({"type_": "poisson", "rate": 9.5}),
        ],
    }


LLM_D_0_1 = """
version: '0.1'
scenario:
  model: {name: org/model-a}
  load: {name: vllm-benchmark, args: {max_concurrency: 8}}
metrics:
  time: {duration: 20.0}
  requests:
    total: 100
    failures: 2
    input_length: {units: count, mean: 100.0}
    output_length: {units: count, mean: 20.0}
  latency:
    time_to_first_token: {units: ms, mean: 210.0, p50: 200.0, p99: 400.0}
    time_per_output_token: {units: ms/token, mean: 11.0, p50: 10.0}
    inter_token_latency: {units: ms/token, mean: 11.0, p50: 9.0}
    request_latency: {units: ms, mean: 400.0, p50: 390.0}
  throughput: {output_tokens_per_sec: 98.0, total_tokens_per_sec: 588.0, requests_per_sec: 4.9}
"""


def llm_d_0_2(tool: str = "guidellm") -> dict[str, Any]:
    return {
        "version": "0.2", "run": {"uid": "u"},
        "scenario": {
            "stack": [{"metadata": {"kind": "inference_engine"}, "standardized": {"model": {"name": "org/model-a"}}}],
            "load": {"standardized": {"tool": tool, "tool_version": "1", "rate_qps": 5.0}},
        },
        "results": {"request_performance": {"aggregate": {
            "requests": {"total": 100, "failures": 0, "input_length": {"units": "count", "mean": 100}},
            "latency": {"time_to_first_token": {"units": "s", "mean": 0.21, "p50": 0.2},
                        "time_per_output_token": {"units": "s/token", "mean": 0.05, "p50": 0.048},
                        "inter_token_latency": {"units": "s/token", "mean": 0.011, "p50": 0.01}},
            "throughput": {"output_token_rate": {"units": "tokens/s", "mean": 98.0},
                           "request_rate": {"units": "queries/s", "mean": 4.9}},
        }}},
    }  # fmt: skip


def inferencex_row(conc: int = 8, **changes: Any) -> dict[str, Any]:
    return {
        "hw": "h200", "framework": "vllm", "precision": "fp8", "tp": 8, "ep": 1, "dp_attention": "false", "conc": conc,
        "model": "org/Model-A", "isl": 1024, "osl": 1024, "tput_per_gpu": 1000.0, "output_tput_per_gpu": 500.0,
        "mean_ttft": 0.21, "median_ttft": 0.2, "p99_ttft": 0.4, "mean_tpot": 0.021, "median_tpot": 0.02,
        "p99_tpot": 0.04, "mean_intvty": 48.0, "median_intvty": 50.0, "p99_intvty": 25.0, "median_e2el": 20.0,
        "mean_e2el": 20.0, **changes,
    }  # fmt: skip
