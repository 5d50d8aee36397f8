"""A closed loop of published size through the real scheduler, timed by the cost model: how long a first token waits.

The scheduler is the runtime's own object; what is made short is the time between its decisions. While nothing waits,
nothing prefills and nothing ends, its plan stays the same, so those steps are taken at once. Each sequence has one KV
block as large as itself, taken when it is admitted: cache of the requests that run is accounted for, preemption is not.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

from runners.modelled.shape import ModelShape
from runners.modelled.work import Counts
from runners.runtime.blocks import BlockPool
from runners.runtime.scheduler import Schedule, Scheduler, SchedulerConfig
from runners.runtime.sequence import SamplingParams, Sequence, SequenceState

StepSeconds = Callable[[Counts], float]
LENGTH_RATIO = 0.8
"""Published closed loops draw lengths evenly from this share of the stated length up to all of it."""


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`concurrency` requests are always in flight until `num_requests` were sent. Where the decode happens elsewhere,
    `decode_elsewhere_s` is how long after its first token a request leaves, per output token. `slow_prefill` times the
    steps that prefill, by their share of prompt tokens. `groups` data-parallel groups step together, so that a prompt
    in one of them holds up all; steps are priced by the busiest."""

    concurrency: int
    num_requests: int
    input_tokens: int
    output_tokens: int
    max_num_batched_tokens: int
    max_num_seqs: int
    decode_elsewhere_s: float | None = None
    slow_prefill: float = 1.0
    groups: int = 1
    jitter: bool = True


class Replay:
    """One closed loop, from its burst of first requests to its last."""

    def __init__(self, shape: ModelShape, loop: ClosedLoop, step_s: StepSeconds, seed: int = 0) -> None:
        self._shape, self._loop, self._step_s = shape, loop, step_s
        generator = np.random.default_rng(seed)
        least = LENGTH_RATIO if loop.jitter else 1.0
        shares = generator.uniform(least, 1.0, (2, loop.num_requests))
        self._inputs = np.maximum(shares[0] * loop.input_tokens, 1).astype(int)
        self._outputs = np.maximum(shares[1] * loop.output_tokens, 1).astype(int)
        self._prompt = (0,) * (loop.input_tokens + 1)
        config = SchedulerConfig(
            min(loop.max_num_seqs, loop.max_num_batched_tokens), loop.max_num_batched_tokens, False
        )
        pool = BlockPool(min(loop.max_num_seqs, loop.num_requests), loop.input_tokens + loop.output_tokens + 2)
        self._scheduler = Scheduler(config, pool)
        self._now_s = 0.0
        self._sent = 0
        self._first_token_s: list[float] = []
        self._away: list[float] = []

    def run(self) -> list[float]:
        """Seconds to the first token of each request, in the order in which they got one."""
        for _ in range(min(self._loop.concurrency, self._loop.num_requests)):
            self._send()
        while self._scheduler.running or self._scheduler.waiting or self._away:
            self._return_due()
            if self._scheduler.running or self._scheduler.waiting:
                self._step()
            elif self._away:
                self._now_s = self._away[0]
        return self._first_token_s

    def _send(self) -> None:
        if self._sent == self._loop.num_requests:
            return
        elsewhere = self._loop.decode_elsewhere_s is not None
        wanted = 1 if elsewhere else int(self._outputs[self._sent])
        prompt = self._prompt[: int(self._inputs[self._sent])]
        self._scheduler.add(Sequence(str(self._sent), prompt, SamplingParams(max_tokens=wanted), queued_s=self._now_s))
        self._sent += 1

    def _return_due(self) -> None:
        while self._away and self._away[0] <= self._now_s:
            heapq.heappop(self._away)
            self._send()

    def _step(self) -> None:
        plan = self._scheduler.schedule()
        times = 1 if plan.prefill_tokens or self._away else self._steady_steps(plan)
        counts, prompt_tokens = self._count(plan, (times - 1) / 2)
        slow = 1.0 + (self._loop.slow_prefill - 1.0) * prompt_tokens / counts.tokens
        self._now_s += times * slow * self._step_s(counts)
        self._scheduler.commit(plan)
        for sequence, share in zip(plan.sequences, plan.batch, strict=True):
            if share.sample:
                self._take_tokens(sequence, times)

    def _steady_steps(self, plan: Schedule) -> int:
        """Steps until one of the batch ends; what waits stays so until then."""
        return min(sequence.params.max_tokens - len(sequence.output_ids) for sequence in plan.sequences)

    def _take_tokens(self, sequence: Sequence, times: int) -> None:
        if not sequence.output_ids:
            self._first_token_s.append(self._now_s - sequence.queued_s)
        sequence.output_ids.extend([0] * times)
        sequence.num_computed_tokens += times - 1
        if len(sequence.output_ids) >= sequence.params.max_tokens:
            self._scheduler.remove(sequence, SequenceState.FINISHED)
            self._leave(int(sequence.request_id))

    def _leave(self, number: int) -> None:
        elsewhere_s = self._loop.decode_elsewhere_s
        if elsewhere_s is None:
            self._send()
        else:
            heapq.heappush(self._away, self._now_s + elsewhere_s * float(self._outputs[number]))

    def _count(self, plan: Schedule, later: float) -> tuple[Counts, float]:
        """Counts of the busiest group's step, and how many of its tokens are of prompts. Decodes are at a context that
        is `later` tokens longer, and spread over the groups evenly; prompts are whole."""
        shape, groups = self._shape, self._loop.groups
        elements = flops = 0.0
        prompts = decodes = context = sampled = 0
        for share in plan.batch:
            new = len(share.token_ids)
            if new == 1 and share.num_output_tokens:
                decodes += 1
                context += share.start
            else:
                prompts += 1
                sampled += share.sample
                elements += shape.kv_elements_held(share.start + new) + shape.state_traffic
                flops += shape.attention_flops(share.start, new)
        part = ceil(prompts / groups) / prompts if prompts else 0.0
        mine = decodes / groups
        elements, flops, prompt_tokens = part * elements, part * flops, part * plan.prefill_tokens
        if decodes:
            mean = int(context / decodes + later)
            elements += mine * (shape.kv_elements_held(mean) + shape.state_traffic)
            flops += mine * shape.attention_flops(mean, 1)
        all_tokens = plan.prefill_tokens + decodes
        counts = Counts(prompt_tokens + mine, part * sampled + mine, part * prompts + mine, elements, flops, all_tokens)
        return counts, prompt_tokens
