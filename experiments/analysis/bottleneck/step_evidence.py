"""What the steps of a run say of its engine: why requests waited, what stretched their decoding, and its idle time.

Requests that wait do so for a seat (`max_num_seqs`), for tokens of the step's budget, or for KV blocks: the scheduler
admits in order until one of them runs out. Steps are those of the measured window, of every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.events import Report, Step
from runners.roofline import measure_utilisation, step_cost
from runners.spec import EngineSpec, RunSpec

FEWEST_PURE = 5
"""Decode steps without prompts from which the length of such a step is known."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StepEvidence:
    """`waiting_*` are shares of the time that requests waited in the steps, by what they waited for.

    `stretch` is the share of decode time that prompts computed in the same steps added, `decode_step_s` the median
    length of a step that decodes alone and `any_step_s` that of one that decodes at all. `*_bound` are of those
    alone: shares of their time that the arithmetic and the memory traffic of the model would take at the peaks, None
    where those are not known; `intensity` is FLOPs over bytes. `fragmentation` is that of steps without prompts.
    """

    steps: int
    waiting_seats: float
    waiting_budget: float
    waiting_blocks: float
    waiting_preempted: float
    stretch: float
    decode_step_s: float | None
    any_step_s: float | None
    compute_bound: float | None
    memory_bound: float | None
    intensity: float | None
    fragmentation: float | None
    kv_use: float | None
    prefill_tokens: int
    preempted: int
    running: float | None


def look_at_steps(steps: Sequence[Step], report: Report, spec: RunSpec) -> StepEvidence:
    waits = _waits(steps, spec.engine)
    pure = [step for step in steps if step.decode_tokens and not step.prefill_tokens]
    decoding = [step.duration_s for step in steps if step.decode_tokens]
    alone_s = float(np.median([step.duration_s for step in pure])) if len(pure) >= FEWEST_PURE else None
    use = measure_utilisation(pure, report, spec)
    return StepEvidence(
        steps=len(steps),
        waiting_seats=waits["seats"],
        waiting_budget=waits["budget"],
        waiting_blocks=waits["blocks"],
        waiting_preempted=waits["preempted"],
        stretch=_stretch(steps, alone_s),
        decode_step_s=alone_s,
        any_step_s=float(np.median(decoding)) if decoding else None,
        compute_bound=use.mfu,
        memory_bound=use.mbu,
        intensity=_intensity(pure, spec),
        fragmentation=_fragmentation(pure, spec.engine.block_size),
        kv_use=_mean(steps, _kv_use),
        prefill_tokens=sum(step.prefill_tokens for step in steps),
        preempted=sum(step.preempted for step in steps),
        running=_mean(steps, lambda step: step.running),
    )


def _waits(steps: Sequence[Step], engine: EngineSpec) -> Mapping[str, float]:
    """Of the time that requests waited, the share that each lack was the reason for."""
    found = {"seats": 0.0, "budget": 0.0, "blocks": 0.0, "preempted": 0.0}
    for step in steps:
        if step.waiting:
            found[_lacks(step, engine)] += step.waiting * step.duration_s
    total = sum(found.values())
    return {name: value / total for name, value in found.items()} if total else found


def _lacks(step: Step, engine: EngineSpec) -> str:
    if step.preempted:
        return "preempted"
    if step.running >= engine.max_num_seqs:
        return "seats"
    taken = step.prefill_tokens + step.decode_tokens + step.draft_tokens
    whole_prompts_wait = not engine.scheduler.chunked_prefill and step.prefill_tokens > 0
    return "budget" if taken >= engine.max_num_batched_tokens or whole_prompts_wait else "blocks"


def _stretch(steps: Sequence[Step], alone_s: float | None) -> float:
    """By how much the decodes of mixed steps took longer than those without prompts; where that is not known, their
    prompts' share of the tokens."""
    added = total = 0.0
    for step in steps:
        if not step.decode_tokens:
            continue
        total += step.decode_tokens * step.duration_s
        if step.prefill_tokens and alone_s is not None:
            added += step.decode_tokens * max(0.0, step.duration_s - alone_s)
        elif step.prefill_tokens:
            share = step.prefill_tokens / (step.prefill_tokens + step.decode_tokens)
            added += step.decode_tokens * step.duration_s * share
    return added / total if total else 0.0


def _intensity(steps: Sequence[Step], spec: RunSpec) -> float | None:
    """FLOPs a byte of steps that decode alone, which needs no peaks."""
    if not steps or not spec.model.shape:
        return None
    costs = [step_cost(step, spec.model.shape, spec.engine.weights, spec.engine.kv_cache) for step in steps]
    return sum(cost.flops for cost in costs) / sum(cost.moved_bytes for cost in costs)


def _fragmentation(steps: Sequence[Step], block_size: int) -> float | None:
    """A prompt has blocks for all of it before it is computed: those steps would look fragmented."""
    held = sum(step.kv_used_blocks for step in steps) * block_size
    return max(0.0, 1 - sum(step.kv_used_slots for step in steps) / held) if held else None


def _kv_use(step: Step) -> float:
    whole = step.kv_used_blocks + step.kv_cached_blocks + step.kv_free_blocks
    return step.kv_used_blocks / whole if whole else 0.0


def _mean(steps: Sequence[Step], measure: Callable[[Step], Any]) -> float | None:
    return float(np.mean([measure(step) for step in steps])) if steps else None


class BusyTime:
    """How much of any span a single engine was in a step: its steps' union, looked up by interpolation."""

    def __init__(self, steps: Sequence[Step]) -> None:
        starts = np.asarray([step.start_s for step in steps], dtype=np.float64)
        order = np.argsort(starts, kind="stable")
        starts = starts[order]
        lengths = np.asarray([step.duration_s for step in steps], dtype=np.float64)[order]
        ends = np.maximum.accumulate(starts + lengths)
        starts = np.maximum(starts, np.concatenate(([-np.inf], ends[:-1])))
        lengths = np.maximum(ends - starts, 0.0)
        done = np.concatenate(([0.0], np.cumsum(lengths)))
        self._times = np.stack((starts, ends), axis=1).ravel()
        self._busy = np.stack((done[:-1], done[1:]), axis=1).ravel()

    def within(self, start_s: Floats, end_s: Floats) -> Floats:
        """Busy seconds of each span, in s."""
        if not len(self._times):
            return np.zeros_like(start_s)
        until: Floats = np.interp(end_s, self._times, self._busy) - np.interp(start_s, self._times, self._busy)
        return np.maximum(until, 0.0)
