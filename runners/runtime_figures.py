"""What a run's engines did in its window, from their steps and the runtime's side of its requests. Pure.

A figure that was not measured is None, never 0. The definitions are METRICS.md's; `runners.metrics` gives them out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runners.events import Report, RequestRecord, Step
from runners.metric import Metric, distribution
from runners.roofline import Utilisation, measure_utilisation
from runners.spec import RunSpec
from runners.system_figures import SystemFigures, sum_over_engines
from runners.window import length_s


def runtime_figures(
    measured: Sequence[RequestRecord], steps: Sequence[Step], report: Report, spec: RunSpec, system: SystemFigures
) -> dict[str, Metric]:
    ok = [record for record in measured if record.status == "ok"]
    n = len(steps)

    def mean(values: Sequence[float], unit: str) -> Metric:
        return Metric(float(np.mean(values)) if len(values) else None, unit, len(values))

    held = [step.kv_used_blocks for step in steps]
    total = [step.kv_used_blocks + step.kv_cached_blocks + step.kv_free_blocks for step in steps]
    slots_held = sum(held) * spec.engine.block_size
    slots_used = sum(step.kv_used_slots for step in steps)
    window_s = length_s(report)
    busy_s = sum(step.duration_s for step in steps) / system.engines
    with_cache = [record for record in ok if record.cached_tokens is not None and record.input_tokens]
    cached = sum(record.cached_tokens or 0 for record in with_cache)
    prompt = sum(record.input_tokens or 0 for record in with_cache)
    preempted = [record.preemptions for record in ok if record.preemptions is not None]
    metrics = {
        "queue_depth": Metric(sum_over_engines(steps, lambda step: step.waiting), "req", n),
        "running": Metric(sum_over_engines(steps, lambda step: step.running), "req", n),
        "kv_use": mean([used / whole for used, whole in zip(held, total, strict=True) if whole], "share"),
        "step_tokens": mean([step.prefill_tokens + step.decode_tokens for step in steps], "tok"),
        "step_time": distribution([step.duration_s for step in steps], "s"),
        "cache_hit_rate": Metric(cached / prompt if prompt else None, "share", len(with_cache)),
        "acceptance_length": _acceptance_length(ok),
        "preemptions": Metric(float(sum(preempted)) if preempted else None, "count", len(preempted)),
        "kv_fragmentation": Metric(1 - slots_used / slots_held if slots_held else None, "share", n),
        "interconnect_tax": Metric(system.link_share, "share", n),
        "idle_share": Metric(_idle_share(busy_s, window_s) if window_s and n else None, "share", n),
    }
    return metrics | _utilisation_metrics(measure_utilisation(steps, report, spec), n)


def _idle_share(busy_s: float, window_s: float) -> float:
    """Rounded to a billionth: below that it is the sum's rounding and no idling."""
    return round(max(0.0, 1 - busy_s / window_s), 9)


def _acceptance_length(records: Sequence[RequestRecord]) -> Metric:
    """(accepted draft tokens + steps) / steps, where a step is one the target model took for a request's tokens."""
    speculated = [record for record in records if record.draft_tokens]
    accepted = sum(record.accepted_tokens or 0 for record in speculated)
    steps = sum((record.output_tokens or 0) - (record.accepted_tokens or 0) for record in speculated)
    return Metric((accepted + steps) / steps if steps else None, "tok", len(speculated))


def _utilisation_metrics(use: Utilisation, n: int) -> dict[str, Metric]:
    return {
        "mfu": Metric(use.mfu, "share", n),
        "mbu": Metric(use.mbu, "share", n),
        "prefill_compute_wait": Metric(use.prefill_wait, "share", use.prefill_steps),
        "decode_compute_wait": Metric(use.decode_wait, "share", use.decode_steps),
    }
