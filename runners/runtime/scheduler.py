"""What the next step computes: one token budget, shared out to running sequences first, then to waiting ones.

The decisions are pure and know no clock, so measured and modelled nodes share them. In a step:

1. every sequence that lacks one token gets it: a decode never waits for a prefill. With lookahead, those that are
   past their prompt also get room for drafts, as far as blocks go without a preemption and the budget goes, of which
   drafts leave half to prefills that are due;
2. running sequences that lack more (a prefill in chunks) share what is left of the budget;
3. waiting sequences are admitted in order, until budget, `max_num_seqs` or blocks run out; none overtakes.

Order is (priority, arrival), a lower number sooner; under the policy `fcfs` it is the arrival alone. A sequence gets
the blocks of all its present tokens when it is admitted, so a prefill never stops half-way for want of them. A decode
that finds no block preempts the last running sequence in order, perhaps itself: that one gives up its blocks, waits
again in its old place and is recomputed later. A waiting sequence never preempts a running one, whatever its priority.

A sequence may start with keys and values that were computed elsewhere, or that a tier below the prefix cache has kept:
they take blocks here like all others, but no budget.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from runners.runtime.blocks import BlockPool, PrefixMatch
from runners.runtime.executor import ScheduledSequence
from runners.runtime.sequence import SamplingParams, Sequence, SequenceState
from runners.runtime.tiers import PrefixTier, TierLoad

_ORDER = attrgetter("order")


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Limits of a step. Without `chunked_prefill` a prompt is computed in one step or waits; only a preempted
    sequence that has outgrown the budget is recomputed in chunks, since nothing else would let it go on.
    `num_lookahead_tokens` is the most drafts that a decode may have verified beside its one token (as in vLLM).
    `prefix_tiers` keep what the prefix cache drops, nearest first. The policy `priority` heeds what priority a sequence
    has, `fcfs` does not."""

    max_num_seqs: int = 16
    max_num_batched_tokens: int = 2048
    prefix_cache: bool = True
    chunked_prefill: bool = True
    num_lookahead_tokens: int = 0
    prefix_tiers: tuple[PrefixTier, ...] = ()
    policy: Literal["fcfs", "priority"] = "priority"

    def __post_init__(self) -> None:
        if self.max_num_seqs < 1:
            raise ValueError(f"max_num_seqs: {self.max_num_seqs} is not allowed; allowed: at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens: {self.max_num_batched_tokens} is not allowed; allowed: at least "
                f"max_num_seqs ({self.max_num_seqs}), so that every running sequence can decode in each step"
            )
        if self.num_lookahead_tokens < 0:
            raise ValueError(f"num_lookahead_tokens: {self.num_lookahead_tokens} is not allowed; allowed: at least 0")


@dataclass(slots=True)
class Schedule:
    """One step's work: `batch[i]` is the share of `sequences[i]`, `budget` what is left of the token budget.

    A decode token follows an output token; all others are prefill, those recomputed after a preemption too.
    `cached_tokens` were skipped, as the prefix cache had them; what was received from elsewhere does not count as that.
    Of those, `loaded_tokens` come out of its tiers.
    """

    budget: int
    sequences: list[Sequence] = field(default_factory=list)
    batch: list[ScheduledSequence] = field(default_factory=list)
    prefill_tokens: int = 0
    decode_tokens: int = 0
    preempted: int = 0
    cached_tokens: int = 0
    draft_tokens: int = 0
    loaded_tokens: int = 0

    def take(self, sequence: Sequence, num_scheduled_tokens: int, num_draft_tokens: int = 0) -> None:
        start = sequence.num_computed_tokens
        stop = start + num_scheduled_tokens
        sample = stop == sequence.num_tokens
        self.budget -= num_scheduled_tokens + num_draft_tokens
        self.draft_tokens += num_draft_tokens
        token_ids: tuple[int, ...]
        if sample and num_scheduled_tokens == 1 and sequence.output_ids:
            self.decode_tokens += 1
            token_ids = (sequence.output_ids[-1],)
        else:
            self.prefill_tokens += num_scheduled_tokens
            token_ids = sequence.tokens(start, stop)
        self.sequences.append(sequence)
        self.batch.append(
            ScheduledSequence(
                request_id=sequence.request_id,
                token_ids=token_ids,
                start=start,
                block_table=sequence.block_table,
                sample=sample,
                params=sequence.params,
                num_output_tokens=len(sequence.output_ids),
                past=sequence.past() if sequence.looks_back else None,
                allowed=sequence.structure.allowed if sequence.structure is not None else None,
                num_scored=len(sequence.prompt_logprobs),
                num_received_tokens=sequence.num_received_tokens,
                num_draft_tokens=num_draft_tokens,
                loaded=sequence.loaded,
            )
        )


class Scheduler:
    """Holds the waiting and running sequences, both in order, and the block pool they share; and of finished sequences
    those whose blocks are kept until somebody has read them."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        self.config = config
        self.pool = pool
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.kept: dict[str, Sequence] = {}
        self._arrivals = 0

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence behind those of its priority, or of all. It must fit the pool when alone in it."""
        priority = sequence.priority if self.config.policy == "priority" else 0
        sequence.order = (priority, self._arrivals)
        self._arrivals += 1
        insort(self.waiting, sequence, key=_ORDER)

    def remove(self, sequence: Sequence, state: SequenceState) -> None:
        """Take a sequence out, finished or aborted, and free its blocks, but for those that a finished one keeps."""
        queue = self.running if sequence.state is SequenceState.RUNNING else self.waiting
        del queue[bisect_left(queue, sequence.order, key=_ORDER)]
        sequence.state = state
        if sequence.keep_kv and state is SequenceState.FINISHED:
            self.kept[sequence.request_id] = sequence
        else:
            self._release(sequence)

    def release_kept(self, request_id: str) -> bool:
        """Free the blocks that a finished sequence kept. False if it keeps none."""
        sequence = self.kept.pop(request_id, None)
        if sequence is None:
            return False
        self._release(sequence)
        return True

    def holders(self) -> list[Sequence]:
        """All whose block tables count as references."""
        return [*self.running, *self.kept.values()] if self.kept else self.running

    def schedule(self) -> Schedule:
        """Decide the next step and take the blocks it needs. The batch is empty only if there is no work."""
        plan = Schedule(budget=self.config.max_num_batched_tokens)
        self._schedule_decodes(plan)
        self._schedule_prefills(plan)
        if not plan.preempted:
            self._admit_waiting(plan)
        return plan

    def commit(self, plan: Schedule) -> None:
        """Note that the step was computed, and offer the blocks it filled to the prefix cache."""
        for sequence, share in zip(plan.sequences, plan.batch, strict=True):
            if sequence.state is SequenceState.RUNNING:
                sequence.num_computed_tokens = share.start + len(share.token_ids)
                sequence.num_received_tokens = 0
                sequence.loaded = ()
                if self.config.prefix_cache:
                    self.publish_full_blocks(sequence)

    def settle_drafts(self, sequence: Sequence) -> None:
        """After the step's tokens were appended: what was accepted is computed, blocks for the rest are given back."""
        sequence.num_computed_tokens = sequence.num_tokens - 1
        if self.config.prefix_cache:
            self.publish_full_blocks(sequence)
        kept = self.pool.blocks_for(sequence.num_computed_tokens)
        self.pool.release(sequence.block_table[kept:])
        sequence.block_table = sequence.block_table[:kept]

    def _schedule_decodes(self, plan: Schedule) -> None:
        # Victims come from the end of `running`, so they are never sequences this loop has passed.
        decoding, position = [], 0
        while position < len(self.running):
            sequence = self.running[position]
            if sequence.num_uncomputed_tokens == 1 and self._grow_table(sequence, plan):
                decoding.append(sequence)
            position += 1
        draft_room = self._draft_room(plan.budget - len(decoding))
        for sequence in decoding:
            num_drafts = self._grow_for_drafts(sequence, draft_room) if draft_room else 0
            draft_room -= num_drafts
            plan.take(sequence, 1, num_drafts)

    def _draft_room(self, budget: int) -> int:
        """How many tokens of the budget that decodes leave may be drafts."""
        if not self.config.num_lookahead_tokens:
            return 0
        prefill_due = self.waiting or any(sequence.num_uncomputed_tokens > 1 for sequence in self.running)
        return budget // 2 if prefill_due else budget

    def _grow_for_drafts(self, sequence: Sequence, most: int) -> int:
        """Make room for drafts after the sequence's next token; gives how many. Blocks that others hold stay theirs."""
        if not sequence.output_ids:
            return 0
        # The token of this step comes in any case, so that one draft fewer than tokens are left can be of use.
        most = min(most, self.config.num_lookahead_tokens, sequence.params.max_tokens - len(sequence.output_ids) - 1)
        room = len(sequence.block_table) + self.pool.num_free + self.pool.num_cached
        most = min(most, room * self.pool.block_size - sequence.num_tokens)
        needed = self.pool.blocks_for(sequence.num_tokens + most) - len(sequence.block_table)
        if needed > 0 and (blocks := self.pool.allocate(needed)):
            sequence.block_table += blocks
        return most

    def _schedule_prefills(self, plan: Schedule) -> None:
        for sequence in self.running:
            if not plan.budget:
                return
            if sequence.num_uncomputed_tokens > 1:
                plan.take(sequence, min(sequence.num_uncomputed_tokens, plan.budget))

    def _admit_waiting(self, plan: Schedule) -> None:
        while self.waiting and plan.budget and len(self.running) < self.config.max_num_seqs:
            sequence = self.waiting[0]
            match = self._match(sequence)
            known_tokens = self._known_tokens(sequence, match)
            if not self._fits_budget(sequence, known_tokens, plan.budget):
                return
            loaded = self.pool.loads(match.below)
            needed = self.pool.blocks_for(sequence.num_tokens) - len(match.hits)
            table = self.pool.allocate(needed, match.hits, match.below)
            if table is None:
                return
            plan.cached_tokens += known_tokens - sequence.num_received_tokens
            plan.loaded_tokens += sum(load.num_tokens for load in loaded)
            self._start(self.waiting.pop(0), table, match, loaded, known_tokens)
            plan.take(sequence, min(sequence.num_tokens - known_tokens, plan.budget))

    def may_admit_while_decoding(self) -> bool:
        """Whether a waiting sequence might be admitted while all that run decode: now, or when its prefix is longer."""
        budget = self.config.max_num_batched_tokens - len(self.running)
        if not self.waiting or not budget or len(self.running) >= self.config.max_num_seqs:
            return False
        sequence = self.waiting[0]
        match = self._match(sequence)
        if not self._fits_budget(sequence, self._known_tokens(sequence, match), budget):
            return self.config.prefix_cache
        return self.pool.has_room(self.pool.blocks_for(sequence.num_tokens) - len(match.hits), match.hits)

    def count_prefix(self, prompt_ids: tuple[int, ...]) -> int:
        """How many tokens of such a prompt the prefix cache and its tiers would spare now."""
        return self._match(Sequence("", prompt_ids, SamplingParams())).num_blocks * self.pool.block_size

    def _match(self, sequence: Sequence) -> PrefixMatch:
        # What is received need not be loaded, though blocks that are here may be shared.
        if sequence.num_received_tokens:
            return PrefixMatch(self.pool.match(self._prefix_of(sequence)))
        return self.pool.match_all(self._prefix_of(sequence))

    def _prefix_of(self, sequence: Sequence) -> Iterator[tuple[int, ...]]:
        """The full blocks of tokens that the prefix cache may spare the sequence."""
        # Prompt logprobs come from computing the prompt, which a hit would skip.
        if not self.config.prefix_cache or sequence.lacks_prompt_logprobs:
            return iter(())
        # At least the last token is always computed: its logits are what the step is for.
        size = self.pool.block_size
        last_start = (sequence.num_tokens - 1) // size * size
        return (sequence.tokens(start, start + size) for start in range(0, last_start, size))

    def _known_tokens(self, sequence: Sequence, match: PrefixMatch) -> int:
        return max(match.num_blocks * self.pool.block_size, sequence.num_received_tokens)

    def _fits_budget(self, sequence: Sequence, known_tokens: int, budget: int) -> bool:
        return sequence.num_tokens - known_tokens <= budget or self._may_chunk(sequence)

    def _may_chunk(self, sequence: Sequence) -> bool:
        return self.config.chunked_prefill or sequence.num_tokens > self.config.max_num_batched_tokens

    def _start(
        self,
        sequence: Sequence,
        table: tuple[int, ...],
        match: PrefixMatch,
        loaded: tuple[TierLoad, ...],
        known_tokens: int,
    ) -> None:
        if not sequence.preemptions:
            sequence.cached_tokens = known_tokens - sequence.num_received_tokens
            sequence.tier_hits = loaded
        sequence.loaded = loaded
        sequence.state = SequenceState.RUNNING
        sequence.block_table = table
        sequence.num_computed_tokens = known_tokens
        sequence.num_published_blocks = match.num_blocks
        insort(self.running, sequence, key=_ORDER)

    def _grow_table(self, sequence: Sequence, plan: Schedule) -> bool:
        """Make room for the sequence's next token, preempting if there is none; False if it went itself."""
        if len(sequence.block_table) * self.pool.block_size >= sequence.num_tokens:
            return True
        while (block := self.pool.allocate_one()) is None:
            plan.preempted += 1
            if self._preempt_last() is sequence:
                return False
        sequence.block_table += (block,)
        return True

    def _preempt_last(self) -> Sequence:
        victim = self.running.pop()
        self._release(victim)
        victim.preemptions += 1
        victim.state = SequenceState.WAITING
        insort(self.waiting, victim, key=_ORDER)
        return victim

    def _release(self, sequence: Sequence) -> None:
        self.pool.release(sequence.block_table)
        sequence.block_table = ()
        sequence.num_computed_tokens = 0

    def publish_full_blocks(self, sequence: Sequence) -> None:
        """Offer what the sequence has filled since the last time to the prefix cache."""
        size, first = self.pool.block_size, sequence.num_published_blocks
        if sequence.num_computed_tokens < (first + 1) * size:
            return
        for index in range(first, sequence.num_computed_tokens // size):
            table = sequence.block_table
            parent = table[index - 1] if index else None
            block = self.pool.publish(table[index], parent, sequence.tokens(index * size, (index + 1) * size))
            if block != table[index]:
                sequence.block_table = (*table[:index], block, *table[index + 1 :])
            sequence.num_published_blocks = index + 1
