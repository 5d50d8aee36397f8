"""What a node reports of a run on two prefill engines and one decode engine, and a few of their steps."""

from __future__ import annotations

from typing import Any

from runners.events import Step

FACTS: dict[str, Any] = {
    "calibration": "calibrated",
    "system": {
        "chips": 10,
        "pools": [
            {
                "role": "prefill", "engines": 2, "chip": "h100-sxm", "chips_per_engine": 1,
                "parallel": {"tp": 1, "dp": 1, "pp": 1, "ep": 1}, "num_blocks": 12_345, "kv_bytes": 3.2e10,
                "weight_bytes_per_chip": 1.6e10, "idle_w": 70.0, "bytes_per_s": 3.35e12, "flops_per_s": 9.89e14,
            },
            {
                "role": "decode", "engines": 1, "chip": "mi300x", "chips_per_engine": 8,
                "parallel": {"tp": 8, "dp": 1, "pp": 1, "ep": 1}, "num_blocks": 99_000, "kv_bytes": 1.2e12,
                "weight_bytes_per_chip": 2.0e9, "idle_w": 1120.0, "bytes_per_s": 4.2e13, "flops_per_s": 1.04e16,
            },
        ],
        "link": {"bytes_per_s": 5.0e10, "latency_s": 5e-6},
        "router": "kv_aware",
    },
    "phases": {
        "prefill": {"seconds": 4.0, "compute_s": 3.0, "bandwidth_s": 0.5, "link_s": 0.1, "overhead_s": 0.4,
                    "bound": "compute", "capacity": False, "queue_share": 0.25},
        "decode": {"seconds": 10.0, "compute_s": 1.0, "bandwidth_s": 7.0, "link_s": 1.5, "overhead_s": 0.5,
                   "bound": "bandwidth", "capacity": True, "queue_share": 0.0},
    },
    "transfers": {"count": 32, "bytes": 3.2e9, "seconds": 0.5, "waited_s": 0.064},
    "energy": {"source": "modelled"},
    "usd_per_hour": 31.5,
}  # fmt: skip


def step(index: int, engine: str | None, start_s: float, prefill: int = 0, decode: int = 1) -> Step:
    return Step(
        index=index, start_s=start_s, duration_s=0.1, prefill_tokens=prefill, decode_tokens=decode,
        running=decode, waiting=0, kv_used_blocks=1, kv_cached_blocks=0, kv_free_blocks=3, kv_used_slots=5,
        engine=engine, bound="bandwidth", link_s=0.025,
    )  # fmt: skip
