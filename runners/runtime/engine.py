"""The engine: requests go in, each step schedules, executes and updates, tokens come out.

It owns no thread and no text: one thread adds, aborts and steps. An executor that fails in a step leaves
every sequence where it was, so the step may be tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import inf

from runners.events import MAX_OWNERS, KVBlocks, Step
from runners.runtime.admission import RequestRejected, check_servable, max_sequence_tokens
from runners.runtime.blocks import BlockPool
from runners.runtime.executor import Executor, SteadyExecutor, StepDetail, StepResult
from runners.runtime.outputs import (
    EmbeddingOutput,
    EngineStats,
    Failure,
    FinishReason,
    PromptLogprobs,
    RequestTiming,
    StepOutput,
    TokenOutput,
)
from runners.runtime.sampling.limits import check_sampling
from runners.runtime.sampling.structure import StructureState
from runners.runtime.scheduler import Schedule, Scheduler, SchedulerConfig
from runners.runtime.sequence import ReceivedKV, SamplingParams, Sequence, SequenceState
from runners.runtime.steady import SteadyOutput, SteadyPlan, plan_steady
from runners.runtime.step_update import ExecutorContractError, StepUpdate, check_result, finish_reason, timing_of

__all__ = [
    "EmbeddingOutput",
    "Engine",
    "EngineStats",
    "ExecutorContractError",
    "Failure",
    "FinishReason",
    "PromptLogprobs",
    "RequestRejected",
    "RequestTiming",
    "SteadyOutput",
    "StepOutput",
    "TokenOutput",
]

_NO_DETAIL = StepDetail()


class Engine:
    """Continuous batching over one executor.

    Where a run has several engines, `name` tells them apart in their steps, and `numbers` gives the steps of all of
    them their indices.
    """

    def __init__(
        self,
        executor: Executor,
        config: SchedulerConfig,
        *,
        name: str | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.executor = executor
        self.config = config
        self.name = name
        self.numbers = count(1) if numbers is None else numbers
        self._steady_executor = executor if isinstance(executor, SteadyExecutor) else None
        self._pool = BlockPool(executor.num_blocks, executor.block_size, config.prefix_tiers)
        self._scheduler = Scheduler(config, self._pool)
        self._sequences: dict[str, Sequence] = {}
        self._max_sequence_tokens = max_sequence_tokens(executor)
        self._checked_idle = True

    @property
    def has_work(self) -> bool:
        return bool(self._sequences)

    @property
    def num_tokens_to_do(self) -> int:
        """Tokens of prompts and answers that are not computed yet, if every answer gets as long as it may."""
        # Output tokens count on both sides: as computed or not yet, and against those still to come.
        return sum(
            [
                len(seq.prompt_ids) + seq.params.max_tokens - seq.num_computed_tokens - seq.num_received_tokens
                for seq in self._sequences.values()
            ]
        )

    def check(
        self,
        request_id: str,
        prompt_ids: tuple[int, ...],
        params: SamplingParams,
        received: ReceivedKV | None = None,
    ) -> None:
        """Raise RequestRejected if the request could never run."""
        if request_id in self._sequences or request_id in self._scheduler.kept:
            raise RequestRejected("request_id", request_id, "an id that no unfinished request has")
        check_servable(len(prompt_ids), params, self._max_sequence_tokens, self.config, received)
        check_sampling(params, self.executor.vocab_size)

    def add(
        self,
        request_id: str,
        prompt_ids: tuple[int, ...],
        params: SamplingParams,
        priority: int = 0,
        structure: StructureState | None = None,
        received: ReceivedKV | None = None,
        keep_kv: bool = False,
    ) -> None:
        """Queue a request (a lower `priority` runs sooner); RequestRejected if it could never run.

        `structure` is `params.structure` made ready; without it the output is free, as a modelled one is anyway.
        `received` is what another engine did of the request. Its output tokens are not given again, and count for
        `max_tokens`; a `structure` stands past them already. With `keep_kv` its blocks stay held when it has finished,
        until `release_kv`: another engine is to get them.
        """
        self.check(request_id, prompt_ids, params, received)
        sequence = Sequence(
            request_id,
            tuple(prompt_ids),
            params,
            priority,
            queued_s=self.executor.now(),
            structure=structure,
            keep_kv=keep_kv,
        )
        if received is not None:
            sequence.num_received_tokens = received.num_tokens
            sequence.output_ids.extend(received.output_ids)
        self._scheduler.add(sequence)
        self._sequences[request_id] = sequence

    def foretell_output(self, params: SamplingParams, num_tokens: int) -> tuple[int, ...] | None:
        """The first tokens of such a request's output, where the executor knows them before any step."""
        if self._steady_executor is None:
            return None
        return tuple(self._steady_executor.decode_tokens(params, 0, num_tokens))

    def abort(self, request_id: str) -> bool:
        """Drop a request, whatever its state, and free its blocks at once. False if it is not here."""
        sequence = self._sequences.pop(request_id, None)
        if sequence is None:
            return False
        self._scheduler.remove(sequence, SequenceState.ABORTED)
        self._checked_idle = False
        return True

    def release_kv(self, request_id: str) -> bool:
        """Free the blocks that a finished request kept. False if it keeps none."""
        return self._scheduler.release_kept(request_id)

    def count_prefix(self, prompt_ids: tuple[int, ...]) -> int:
        """How many tokens of such a prompt the prefix cache would spare now, without any effect on it."""
        return self._scheduler.count_prefix(prompt_ids)

    def timing(self, request_id: str) -> RequestTiming | None:
        """The times of an unfinished request as if it ended now; None if it is not here or has no token yet."""
        sequence = self._sequences.get(request_id)
        if sequence is None or sequence.prefill_done_s is None:
            return None
        return timing_of(sequence, self.executor.now())

    def step(self) -> StepOutput | None:
        """Schedule, execute and update once; None when there is no work, or all of it waits for blocks that finished
        requests keep.

        The first call after the last work also checks the block accounting (raises BlockAccountingError).
        """
        if not self._sequences:
            self._check_idle()
            return None
        self._checked_idle = False
        plan = self._scheduler.schedule()
        if not plan.batch:
            return None
        start_s = self.executor.now()
        result = self.executor.execute(tuple(plan.batch))
        return self._update(plan, result, start_s)

    def run_steady(self, until_s: float = inf) -> SteadyOutput | None:
        """Take together the next steps, while the batch stays as it is; None where `step` has to take the next one.

        No step starts at `until_s` or later. What `step` after `step` would give comes out, and leaves the engine in
        the same state, if the caller moves the executor's clock to the end of the last step and takes the events'
        indices from `numbers`.
        """
        plan = self.plan_steady(until_s)
        return self.take_steady(plan, len(plan.timed)) if plan is not None else None

    def plan_steady(self, until_s: float = inf) -> SteadyPlan | None:
        """The steps that `run_steady` would take if no stop token came; takes none of them."""
        executor = self._steady_executor
        return plan_steady(self._scheduler, executor, executor.now(), until_s) if executor is not None else None

    def take_steady(self, plan: SteadyPlan, upto: int) -> SteadyOutput:
        """Take the first `upto` steps of a plan from `plan_steady`, but for those that were taken already; up to one
        whose stop token ends a sequence. Since it was planned, nothing else may have been done with the engine."""
        steps, tokens = plan.take(upto)
        waiting, finished = len(self._scheduler.waiting), self._end_steady(plan.sequences, steps[-1].end_s)
        return SteadyOutput(steps, tokens, finished, waiting, self.name)

    def stats(self) -> EngineStats:
        holders = self._scheduler.holders()
        # Only full blocks are shared, so each reference past the first counts a whole block of slots again.
        shared = sum(len(sequence.block_table) for sequence in holders) - self._pool.num_held
        computed = sum(sequence.num_computed_tokens for sequence in holders)
        return EngineStats(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting),
            kv_used_blocks=self._pool.num_held,
            kv_cached_blocks=self._pool.num_cached,
            kv_free_blocks=self._pool.num_free,
            kv_used_slots=computed - shared * self._pool.block_size,
        )

    def kv_blocks(self) -> KVBlocks:
        """Who holds the blocks now. May look at every held block: for a sample, not for a step."""
        holders = self._scheduler.holders()
        exclusive = {seq.request_id: len(seq.block_table) for seq in holders}
        if sum(exclusive.values()) != self._pool.num_held:  # Some block is held more than once.
            exclusive = {seq.request_id: self._pool.num_exclusive(seq.block_table) for seq in holders}
        largest = sorted(exclusive.items(), key=lambda item: -item[1])
        return KVBlocks(
            owners=dict(largest[:MAX_OWNERS]),
            others=sum(blocks for _, blocks in largest[MAX_OWNERS:]),
            shared=self._pool.num_held - sum(exclusive.values()),
            cached=self._pool.num_cached,
            free=self._pool.num_free,
        )

    def check_integrity(self) -> None:
        """Raise BlockAccountingError unless every block and every entry of the prefix cache is accounted for."""
        self._pool.check_integrity(sequence.block_table for sequence in self._scheduler.holders())

    def _check_idle(self) -> None:
        if not self._checked_idle:
            self._pool.check_accounting(sequence.block_table for sequence in self._scheduler.holders())
            self._checked_idle = True

    def _update(self, plan: Schedule, result: StepResult, start_s: float) -> StepOutput:
        check_result(plan, result)
        self._scheduler.commit(plan)
        update = StepUpdate(self._scheduler, result, start_s + result.duration_s)
        for sequence, share in zip(plan.sequences, plan.batch, strict=True):
            if sequence.scheduled_first_s is None:
                sequence.scheduled_first_s = start_s
            if sequence.state is not SequenceState.RUNNING:
                continue
            if result.prompt_logprobs:
                sequence.prompt_logprobs.extend(result.prompt_logprobs.get(sequence.request_id, ()))
            if share.sample:
                update.take(sequence, share)
        step = self._describe_step(plan, start_s, result, update.accepted_tokens)
        for sequence in update.ended:
            self._end(sequence)
        return update.output(step)

    def _describe_step(self, plan: Schedule, start_s: float, result: StepResult, accepted_tokens: int) -> Step:
        """The step as an event. KV use is as the step left it, before finished sequences let go of theirs."""
        stats, detail = self.stats(), result.detail or _NO_DETAIL
        return Step(
            index=next(self.numbers),
            start_s=start_s,
            duration_s=result.duration_s,
            prefill_tokens=plan.prefill_tokens,
            decode_tokens=plan.decode_tokens,
            running=stats.running,
            waiting=stats.waiting,
            kv_used_blocks=stats.kv_used_blocks,
            kv_cached_blocks=stats.kv_cached_blocks,
            kv_free_blocks=stats.kv_free_blocks,
            kv_used_slots=stats.kv_used_slots,
            preempted=plan.preempted,
            cached_tokens=plan.cached_tokens,
            loaded_tokens=plan.loaded_tokens,
            draft_tokens=plan.draft_tokens,
            accepted_tokens=accepted_tokens,
            engine=self.name,
            bound=detail.bound,
            link_s=detail.link_s,
            energy_j=detail.energy_j,
        )

    def _end_steady(self, sequences: tuple[Sequence, ...], end_s: float) -> tuple[TokenOutput, ...]:
        finished = []
        for sequence in sequences:
            token_id = sequence.output_ids[-1]
            if reason := finish_reason(sequence, token_id):
                self._end(sequence)
                finished.append(TokenOutput(sequence.request_id, token_id, reason, timing_of(sequence, end_s)))
        return tuple(finished)

    def _end(self, sequence: Sequence) -> None:
        del self._sequences[sequence.request_id]
        self._scheduler.remove(sequence, SequenceState.FINISHED)
