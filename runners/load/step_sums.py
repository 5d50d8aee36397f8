"""The runtime's half of the 250 ms samples: the steps that ended inside one interval, reduced to mean and max."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runners.events import Step


def sum_steps(steps: Sequence[Step]) -> dict[str, Any]:
    """The fields of events.Sample that steps give; means and maxima are null without a step.

    `kv_used_*` is the share of all KV blocks that sequences hold, 0 to 1.
    """
    if not steps:
        return {}
    kv_used = [_kv_used_share(step) for step in steps]
    return {
        "steps": len(steps),
        "busy_s": sum(step.duration_s for step in steps),
        "prefill_tokens": sum(step.prefill_tokens for step in steps),
        "decode_tokens": sum(step.decode_tokens for step in steps),
        "running_mean": sum(step.running for step in steps) / len(steps),
        "running_max": max(step.running for step in steps),
        "waiting_mean": sum(step.waiting for step in steps) / len(steps),
        "waiting_max": max(step.waiting for step in steps),
        "kv_used_mean": sum(kv_used) / len(steps),
        "kv_used_max": max(kv_used),
        "preemptions": sum(step.preempted for step in steps),
    }


def _kv_used_share(step: Step) -> float:
    return step.kv_used_blocks / (step.kv_used_blocks + step.kv_cached_blocks + step.kv_free_blocks)
