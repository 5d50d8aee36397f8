"""A few published results, as facts with their sources, for tests of how rows are read and fitted."""

from __future__ import annotations

from typing import Any

TRTLLM = "github:NVIDIA/TensorRT-LLM docs/source/performance/perf-overview.md"
MLENERGY = "github:ml-energy/leaderboard public/data/tasks/lm-arena-chat.json"


def row(number: int, **fields: Any) -> dict[str, Any]:
    """A row with every key that is read; the defaults are those of an offline run of TensorRT-LLM."""
    return {
        "id": f"r{number}",
        "chip_id": "h100-sxm",
        "n_chips": 1,
        "model_key": "llama-3-8b",
        "params_total_B": 8.03,
        "params_active_B": 8.03,
        "precision": "FP8",
        "engine": "TensorRT-LLM",
        "scenario": "offline max throughput (all requests queued, inflight batching)",
        "input_len": 128,
        "output_len": 128,
        "concurrency_or_batch": None,
        "metric": "output_throughput_total",
        "value": None,
        "unit": "tokens/s",
        "source": TRTLLM,
        "parallelism": "TP1",
        "notes": None,
        "split": "train",
        **fields,
    }


def chat(number: int, users: float, metric: str, value: float, **fields: Any) -> dict[str, Any]:
    """A row of the LM-Arena chat test, under vLLM."""
    units = {"itl_median_ms": "ms", "energy_per_output_token": "J/token (GPU only)"}
    scenario = "LM-Arena chat, steady state, fixed max_num_seqs"
    return row(
        number, chip_id="b200-sxm", model_key="gemma-3-12b", precision="BF16", engine="vLLM", scenario=scenario,
        input_len=None, output_len=720, concurrency_or_batch=users, metric=metric, value=value,
        unit=units.get(metric, "tokens/s"), source=MLENERGY, parallelism="TP1 EP1 DP1", **fields,
    )  # fmt: skip


CHAT = [
    chat(1, 8.0, "itl_median_ms", 7.73),
    chat(2, 15.9, "itl_median_ms", 8.32),
    chat(3, 31.9, "itl_median_ms", 11.29),
    chat(4, 63.9, "itl_median_ms", 12.96),
    chat(5, 127.7, "itl_median_ms", 18.89),
    chat(6, 255.6, "itl_median_ms", 28.04),
]
CLOSED = row(
    20, model_key="llama-3-70b", n_chips=2, precision="FP8", engine="vLLM", input_len=1024, output_len=8192,
    scenario="online serving closed-loop concurrency, aggregated", concurrency_or_batch=4, metric="ttft_mean_ms",
    value=124.017, unit="ms", parallelism="agg TP2 PP1 attnDP1 moeTP2 EP1", notes="random ISL jitter",
)  # fmt: skip
