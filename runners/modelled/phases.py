"""What each phase of a modelled run was bound by, added up step by step.

A step that computes prompts and decodes in one counts for either phase by its tokens. Beside what steps spend their
time on, a phase may wait: for room in the KV cache (capacity), or in the queue at all.

The cache lacked room in a step if a request waited although a seat and tokens of the step's budget were left, or one
was preempted: the scheduler admits in order until budget, seats or blocks run out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from runners.events import Step
from runners.modelled.step_model import StepParts

Phase = Literal["prefill", "decode"]
PHASES: tuple[Phase, ...] = ("prefill", "decode")
CAPACITY_SHARE = 0.1
"""Of a phase's time, how much may pass without room before that is told."""


@dataclass(slots=True)
class PhaseSum:
    """Seconds of one phase by what they were spent on, those in which the cache lacked room, and of its requests the
    time that they waited and took in all."""

    compute_s: float = 0.0
    bandwidth_s: float = 0.0
    link_s: float = 0.0
    overhead_s: float = 0.0
    lacking_s: float = 0.0
    waited_s: float = 0.0
    taken_s: float = 0.0

    def add(self, other: PhaseSum) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def facts(self, pool: str | None) -> dict[str, Any]:
        parts = StepParts(self.compute_s, self.bandwidth_s, self.link_s, self.overhead_s)
        seconds = parts.total_s
        return {
            **({"pool": pool} if pool is not None else {}),
            "seconds": seconds,
            "compute_s": self.compute_s,
            "bandwidth_s": self.bandwidth_s,
            "link_s": self.link_s,
            "overhead_s": self.overhead_s,
            "bound": parts.bound,
            "capacity": self.lacking_s > CAPACITY_SHARE * seconds,
            "queue_share": self.waited_s / self.taken_s if self.taken_s else None,
        }


@dataclass(slots=True)
class PhaseSums:
    """The phases of one engine, or of the engines of one pool. `pool` names it where a run has several. Without
    `chunked_prefill` a prompt may wait for a step with enough budget for all of it, and that is no lack of room."""

    max_num_seqs: int
    max_num_batched_tokens: int
    pool: str | None = None
    chunked_prefill: bool = True
    prefill: PhaseSum = field(default_factory=PhaseSum)
    decode: PhaseSum = field(default_factory=PhaseSum)

    def add(self, parts: StepParts, step: Step) -> None:
        """Take a step: `parts` are its seconds by the cost model."""
        tokens = step.prefill_tokens + step.decode_tokens
        if not tokens:
            return
        left = step.running < self.max_num_seqs and tokens + step.draft_tokens < self.max_num_batched_tokens
        lacks = step.preempted > 0 or (step.waiting > 0 and left and self.chunked_prefill)
        if step.decode_tokens:
            _spend(self.decode, parts, step.decode_tokens / tokens, lacks)
        if step.prefill_tokens:
            _spend(self.prefill, parts, step.prefill_tokens / tokens, lacks)

    def wait(self, phase: Phase, waited_s: float, taken_s: float) -> None:
        """Take a request that has ended the phase: how long it waited first, and how long it took with that."""
        total = self.prefill if phase == "prefill" else self.decode
        total.waited_s += waited_s
        total.taken_s += taken_s


def phase_facts(pools: Iterable[PhaseSums]) -> dict[str, Any]:
    """A report's `phases`: each phase over all pools, under the name of the one that spent most on it. A phase without
    a step is left out."""
    told: dict[str, Any] = {}
    pools = list(pools)
    for phase in PHASES:
        total, most, name = PhaseSum(), 0.0, None
        for pool in pools:
            found: PhaseSum = getattr(pool, phase)
            seconds = found.compute_s + found.bandwidth_s + found.link_s + found.overhead_s
            total.add(found)
            if seconds > most:
                most, name = seconds, pool.pool
        if most > 0.0:
            told[phase] = total.facts(name)
    return told


def _spend(total: PhaseSum, parts: StepParts, share: float, lacks: bool) -> None:
    total.compute_s += parts.compute_s * share
    total.bandwidth_s += parts.bandwidth_s * share
    total.link_s += parts.link_s * share
    total.overhead_s += parts.overhead_s * share
    if lacks:
        total.lacking_s += parts.total_s * share
