"""Steps that a machine took, sorted into kinds: as many prompt and decode tokens, about as much context.

Each kind is told by its median, so that a run of a thousand decode steps does not drown its thirty prefill steps, and a
step that other work on the machine held up tells nothing. A step's event has sums alone; what each of its sequences had
is taken to be the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from runners.events import Step
from runners.modelled.formats import FORMATS
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.work import Counts, Splitter, Work

KINDS_PER_OCTAVE = 4
LONGEST_GAP_S = 0.01
"""Between two steps of a server that has work; a longer one is waiting for work."""


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """Steps of one run, in their order: of a model's shape, in one format."""

    shape: ModelShape
    weights: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class StepKind:
    """The median step of a kind as work, its seconds with what passes until the next step begins, and how many there
    were."""

    weights: str
    work: Work
    cycle_s: float
    n: int


def kinds_of(run: MeasuredSteps) -> Iterator[StepKind]:
    """The kinds of a run's steps, the commonest first."""
    grouped: dict[tuple[int, ...], list[Step]] = {}
    for step in run.steps:
        if step.duration_s > 0 and step.prefill_tokens + step.decode_tokens:
            grouped.setdefault(_key(step), []).append(step)
    splitter = Splitter(run.shape, FORMATS[run.weights], Parallel(), FORMATS["bf16"].bits)
    gap_s = gap_between(run.steps)
    for steps in sorted(grouped.values(), key=len, reverse=True):
        median = sorted(steps, key=lambda step: step.duration_s)[len(steps) // 2]
        work = splitter.split(counts_of_step(run.shape, median))
        yield StepKind(run.weights, work, median.duration_s + gap_s, len(steps))


def gap_between(steps: Sequence[Step]) -> float:
    """Median seconds from a step's end to the next one's start, where work did not have to be waited for."""
    gaps = [later.start_s - step.start_s - step.duration_s for step, later in itertools.pairwise(steps)]
    busy = [gap for gap in gaps if 0 <= gap <= LONGEST_GAP_S]
    return float(np.median(busy)) if busy else 0.0


def counts_of_step(shape: ModelShape, step: Step) -> Counts:
    """A step's counts as its event tells them. What runs and does not decode prefills, each an even part, from its
    first token on."""
    decodes, prefill = step.decode_tokens, step.prefill_tokens
    prompts = max(step.running - decodes, 1) if prefill else 0
    sequences = decodes + prompts
    context = int(step.kv_used_slots / max(step.running, sequences, 1))
    length = -(-prefill // prompts) if prompts else 0
    flops = decodes * shape.attention_flops(context, 1)
    elements = decodes * (shape.kv_elements_held(context) + shape.state_traffic)
    if prompts:
        flops += prompts * shape.attention_flops(0, length)
        elements += prompts * (shape.kv_elements_held(length) + shape.state_traffic)
    return Counts(decodes + prefill, sequences, sequences, elements, flops)


def _key(step: Step) -> tuple[int, ...]:
    running = max(step.running, 1)
    return tuple(map(_bucket, (step.prefill_tokens, step.decode_tokens, running, step.kv_used_slots / running)))


def _bucket(count: float) -> int:
    return round(KINDS_PER_OCTAVE * math.log2(1 + count))
