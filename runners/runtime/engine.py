"""The engine: requests go in, each step schedules, executes and updates, tokens come out.

It owns no thread and no text: one thread adds, aborts and steps. An executor that fails in a step leaves
every sequence where it was, so the step may be tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from math import inf

from runners.events import MAX_OWNERS, KVBlocks, Step
from runners.runtime.admission import RequestRejected, check_servable, max_sequence_tokens
from runners.runtime.blocks import BlockPool
from runners.runtime.executor import Executor, ScheduledSequence, SteadyExecutor, StepDetail, StepResult
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
from runners.runtime.sampling.structure import StructureError, StructureState
from runners.runtime.scheduler import Schedule, Scheduler, SchedulerConfig
from runners.runtime.sequence import ReceivedKV, SamplingParams, Sequence, SequenceState, TokenLogprobs
from runners.runtime.steady import SteadyBatch, SteadyOutput, TimedStep, find_steady_batch

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


class ExecutorContractError(RuntimeError):
    """The executor gave tokens or embeddings for other requests than those it was to, or more than it might."""


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
        return sum(
            seq.num_uncomputed_tokens - seq.num_received_tokens + seq.params.max_tokens - len(seq.output_ids)
            for seq in self._sequences.values()
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
        return _timing(sequence, self.executor.now())

    def step(self) -> StepOutput | None:
        """Schedule, execute and update once; None when there is no work.

        The first call after the last work also checks the block accounting (raises BlockAccountingError).
        """
        if not self._sequences:
            self._check_idle()
            return None
        self._checked_idle = False
        plan = self._scheduler.schedule()
        start_s = self.executor.now()
        result = self.executor.execute(tuple(plan.batch))
        return self._update(plan, result, start_s)

    def run_steady(self, until_s: float = inf) -> SteadyOutput | None:
        """Take together the next steps, while the batch stays as it is; None where `step` has to take the next one.

        No step starts at `until_s` or later. What `step` after `step` would give comes out, and leaves the engine in
        the same state, if the caller moves the executor's clock to the end of the last step and takes the events'
        indices from `numbers`.
        """
        batch = self._find_steady_batch()
        timed = batch.time_steps(self.executor.now(), until_s) if batch else []
        return self._take_steps(batch, timed) if batch and timed else None

    def plan_steady(self, until_s: float = inf) -> list[TimedStep]:
        """The steps that `run_steady` would take if no stop token came; takes none of them."""
        batch = self._find_steady_batch()
        return batch.time_steps(self.executor.now(), until_s) if batch else []

    def take_steady(self, timed: list[TimedStep]) -> SteadyOutput:
        """Take steps from `plan_steady`, the first ones or those after what was taken of them; up to one whose stop
        token ends a sequence. In between, nothing else may have been done with the engine."""
        assert self._steady_executor is not None, "it planned them"
        return self._take_steps(SteadyBatch(self._scheduler, self._steady_executor), timed)

    def _find_steady_batch(self) -> SteadyBatch | None:
        executor = self._steady_executor
        return find_steady_batch(self._scheduler, executor) if executor is not None else None

    def _take_steps(self, batch: SteadyBatch, timed: list[TimedStep]) -> SteadyOutput:
        num_steps = batch.draw_tokens(len(timed))
        steps = [batch.take_step(number, *timed[number]) for number in range(num_steps)]
        tokens, waiting = batch.settle(num_steps), len(self._scheduler.waiting)
        finished = self._end_steady(batch.sequences, steps[-1].end_s)
        return SteadyOutput(tuple(steps), tokens, finished, waiting, self.name)

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
        """Who holds the blocks now. Looks at every held block: for a sample, not for a step."""
        exclusive = {seq.request_id: self._pool.num_exclusive(seq.block_table) for seq in self._scheduler.holders()}
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
        _check_result(plan, result)
        end_s = start_s + result.duration_s
        self._scheduler.commit(plan)
        outputs = _Outputs()
        for sequence, share in zip(plan.sequences, plan.batch, strict=True):
            if sequence.scheduled_first_s is None:
                sequence.scheduled_first_s = start_s
            if sequence.state is not SequenceState.RUNNING:
                continue
            if result.prompt_logprobs:
                sequence.prompt_logprobs.extend(result.prompt_logprobs.get(sequence.request_id, ()))
            if share.sample:
                self._take_output(sequence, share, result, end_s, outputs)
        step = self._describe_step(plan, start_s, result, outputs)
        for sequence in outputs.ended:
            self._end(sequence)
        return outputs.of(step)

    def _describe_step(self, plan: Schedule, start_s: float, result: StepResult, outputs: _Outputs) -> Step:
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
            accepted_tokens=outputs.accepted_tokens,
            engine=self.name,
            bound=detail.bound,
            link_s=detail.link_s,
            energy_j=detail.energy_j,
        )

    def _take_output(
        self, sequence: Sequence, share: ScheduledSequence, result: StepResult, end_s: float, outputs: _Outputs
    ) -> None:
        name = sequence.request_id
        if sequence.prefill_done_s is None:
            sequence.prefill_done_s = end_s
            if sequence.params.prompt_logprobs is not None and not sequence.lacks_prompt_logprobs:
                outputs.prompt_logprobs.append(PromptLogprobs(name, (None, *sequence.prompt_logprobs)))
        if sequence.params.embed:
            outputs.ended.append(sequence)
            outputs.embeddings.append(EmbeddingOutput(name, result.embeddings[name], _timing(sequence, end_s)))
            return
        sequence.draft_tokens += share.num_draft_tokens
        try:
            self._append_token(sequence, result.tokens[name], result.logprobs.get(name), end_s, outputs)
            if self.config.num_lookahead_tokens:
                self._append_accepted(sequence, result.accepted.get(name, ()), end_s, outputs)
        except StructureError as error:
            outputs.ended.append(sequence)
            outputs.failures.append(Failure(name, _structure_field(sequence), str(error)))

    def _append_token(
        self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None, end_s: float, outputs: _Outputs
    ) -> None:
        sequence.output_ids.append(token_id)
        if sequence.structure is not None:
            sequence.structure.advance(token_id)
        reason = _finish_reason(sequence, token_id)
        if reason is None:
            outputs.tokens.append(TokenOutput(sequence.request_id, token_id, logprobs=logprobs))
            return
        outputs.ended.append(sequence)
        timing = _timing(sequence, end_s)
        outputs.tokens.append(TokenOutput(sequence.request_id, token_id, reason, timing, logprobs))

    def _append_accepted(self, sequence: Sequence, accepted: tuple[int, ...], end_s: float, outputs: _Outputs) -> None:
        """Append what follows the step's one token, as far as the sequence goes on."""
        for token_id in accepted:
            if outputs.ended and outputs.ended[-1] is sequence:
                break
            sequence.accepted_tokens += 1
            outputs.accepted_tokens += 1
            self._append_token(sequence, token_id, None, end_s, outputs)
        self._scheduler.settle_drafts(sequence)

    def _end_steady(self, sequences: tuple[Sequence, ...], end_s: float) -> tuple[TokenOutput, ...]:
        finished = []
        for sequence in sequences:
            token_id = sequence.output_ids[-1]
            if reason := _finish_reason(sequence, token_id):
                self._end(sequence)
                finished.append(TokenOutput(sequence.request_id, token_id, reason, _timing(sequence, end_s)))
        return tuple(finished)

    def _end(self, sequence: Sequence) -> None:
        del self._sequences[sequence.request_id]
        self._scheduler.remove(sequence, SequenceState.FINISHED)


@dataclass(slots=True)
class _Outputs:
    """A step's outputs as they are gathered, and the sequences that end with it."""

    ended: list[Sequence] = field(default_factory=list)
    accepted_tokens: int = 0
    tokens: list[TokenOutput] = field(default_factory=list)
    embeddings: list[EmbeddingOutput] = field(default_factory=list)
    prompt_logprobs: list[PromptLogprobs] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def of(self, step: Step) -> StepOutput:
        return StepOutput(
            step, tuple(self.tokens), tuple(self.embeddings), tuple(self.prompt_logprobs), tuple(self.failures)
        )


def _check_result(plan: Schedule, result: StepResult) -> None:
    told = result.tokens.keys() | result.embeddings.keys() if result.embeddings else result.tokens.keys()
    if told != {share.request_id for share in plan.batch if share.sample}:
        raise ExecutorContractError(f"tokens for {sorted(told)}, not for those to be sampled")
    wanted = {share.request_id for share in plan.batch if share.params.embed and share.sample}
    if result.accepted:
        drafted = {share.request_id: share.num_draft_tokens for share in plan.batch if share.sample}
        if any(len(tokens) > drafted.get(name, 0) for name, tokens in result.accepted.items()):
            raise ExecutorContractError(f"accepted {dict(result.accepted)}, of drafts {drafted}")
    if wanted != result.embeddings.keys():
        raise ExecutorContractError(f"embeddings for {sorted(result.embeddings)}, not for {sorted(wanted)}")


def _structure_field(sequence: Sequence) -> str:
    structure = sequence.params.structure
    return structure.field if structure is not None else "response_format"


def _finish_reason(sequence: Sequence, token_id: int) -> FinishReason | None:
    params, num_output_tokens = sequence.params, len(sequence.output_ids)
    if sequence.structure is not None:
        if sequence.structure.finished:
            return "stop"
    elif not params.ignore_eos and token_id in params.stop_token_ids and num_output_tokens >= params.min_tokens:
        return "stop"
    return "length" if num_output_tokens >= params.max_tokens else None


def _timing(sequence: Sequence, end_s: float) -> RequestTiming:
    return RequestTiming(
        queued_s=sequence.queued_s,
        scheduled_first_s=sequence.scheduled_first_s,
        prefill_done_s=sequence.prefill_done_s,
        finished_s=end_s,
        preemptions=sequence.preemptions,
        cached_tokens=sequence.cached_tokens,
        draft_tokens=sequence.draft_tokens,
        accepted_tokens=sequence.accepted_tokens,
        loaded=sequence.tier_hits,
    )
