"""The runtime's half of the 250 ms samples: the steps that ended inside one interval, reduced to mean and max."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runners.events import Step


def sum_steps(steps: Sequence[Step]) -> dict[str, Any]:
    """The fields of events.Sample that steps give; means and maxima are null without a step.

    `kv_used_*` is the share of all KV blocks that sequences hold, 0 to 1. Where the run has several engines, what runs
    and waits is each engine's own mean and maximum, added up over those that stepped; the shares are the mean of their
    means, and the fullest engine's maximum.
    """
    if not steps:
        return {}
    by_engine: dict[str | None, list[Step]] = {}
    for step in steps:
        by_engine.setdefault(step.engine, []).append(step)
    parts = [_sum_one(own) for own in by_engine.values()]
    return parts[0] if len(parts) == 1 else _add_up(parts)


def _sum_one(steps: Sequence[Step]) -> dict[str, Any]:
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


def _add_up(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    added = {name: sum(part[name] for part in parts) for name in parts[0]}
    added["kv_used_mean"] /= len(parts)
    added["kv_used_max"] = max(part["kv_used_max"] for part in parts)
    return added


def _kv_used_share(step: Step) -> float:
    return step.kv_used_blocks / (step.kv_used_blocks + step.kv_cached_blocks + step.kv_free_blocks)
