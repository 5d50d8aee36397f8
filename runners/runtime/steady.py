"""Steps in which the batch can't change, taken together: nothing prefills, nothing can be admitted, nothing ends early.

The result is that of taking them one by one, to the bit: the same times, blocks taken, published and evicted in the
same order, the same pool afterwards. What is saved is what each step would do per sequence: a sequence is looked at
where it fills a block, needs one, or ends.

A run ends before a step that finds no block for everyone, and after one that ends a sequence. Whoever waits at its
start waits to its end. For want of blocks: a block that turns out to be held twice, or to lengthen the waiting one's
prefix, spares one, but whoever filled it takes another in the next step. For want of budget: only a longer prefix could
change that, so that there are no runs where one may come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runners.events import Step
from runners.runtime.executor import SteadyExecutor, StepDetail
from runners.runtime.outputs import StepOutput, TokenOutput
from runners.runtime.scheduler import Scheduler
from runners.runtime.sequence import Sequence

_NO_DETAIL = StepDetail()


TimedStep = tuple[float, float, StepDetail | None]
"""Start, duration and detail of a step that is not taken yet."""


class SteadyStep(NamedTuple):
    """What is one step's own; all else is the same in each step of a run."""

    start_s: float
    duration_s: float
    detail: StepDetail | None
    kv_used_blocks: int
    kv_cached_blocks: int
    kv_free_blocks: int
    kv_used_slots: int

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class SteadyOutput:
    """A run of steps, in each of which every request of `tokens` got one token.

    `tokens[id][i]` came with `steps[i]`, in each step in the mapping's order. `finished` are the last tokens of those
    that ended with the last step, and are among `tokens` too.
    """

    steps: tuple[SteadyStep, ...]
    tokens: Mapping[str, tuple[int, ...]]
    finished: tuple[TokenOutput, ...]
    waiting: int
    engine: str | None = None

    def times_s(self) -> list[float]:
        """When each step ended, and its tokens came."""
        return [step.end_s for step in self.steps]

    def events(self, numbers: Iterator[int]) -> Iterator[Step]:
        """The steps as events, one by one; each takes its index from `numbers` when it is asked for."""
        for step in self.steps:
            detail = step.detail or _NO_DETAIL
            yield Step(
                index=next(numbers),
                start_s=step.start_s,
                duration_s=step.duration_s,
                prefill_tokens=0,
                decode_tokens=len(self.tokens),
                running=len(self.tokens),
                waiting=self.waiting,
                kv_used_blocks=step.kv_used_blocks,
                kv_cached_blocks=step.kv_cached_blocks,
                kv_free_blocks=step.kv_free_blocks,
                kv_used_slots=step.kv_used_slots,
                engine=self.engine,
                bound=detail.bound,
                link_s=detail.link_s,
                energy_j=detail.energy_j,
            )

    def outputs(self, numbers: Iterator[int]) -> Iterator[StepOutput]:
        """What the steps would have given one by one."""
        last, ended = len(self.steps) - 1, {token.request_id: token for token in self.finished}
        for place, event in enumerate(self.events(numbers)):
            tokens = (TokenOutput(name, ids[place]) for name, ids in self.tokens.items())
            if place == last:
                tokens = (ended.get(token.request_id, token) for token in tokens)
            yield StepOutput(event, tuple(tokens))


class SteadyBatch:
    """The batch of a run, and its blocks as step after step fills them. Steps are numbered from 0."""

    def __init__(self, scheduler: Scheduler, executor: SteadyExecutor) -> None:
        self.sequences = tuple(scheduler.running)
        self.most_steps = min(seq.params.max_tokens - len(seq.output_ids) for seq in self.sequences)
        self._scheduler = scheduler
        self._executor = executor
        self._pool = scheduler.pool
        size = self._pool.block_size
        self._lacking = [seq for seq in self.sequences if len(seq.block_table) * size < seq.num_tokens]
        self._filling: dict[int, list[Sequence]] = defaultdict(list)
        for sequence in self.sequences:
            self._filling[-sequence.num_tokens % size].append(sequence)
        self._num_computed = [seq.num_computed_tokens for seq in self.sequences]
        self._num_output = [len(seq.output_ids) for seq in self.sequences]
        self._sum_computed = sum(seq.num_computed_tokens for seq in scheduler.holders())
        self._sum_blocks = sum(len(seq.block_table) for seq in scheduler.holders())

    def time_steps(self, start_s: float, until_s: float) -> list[TimedStep]:
        """Each step that starts before `until_s` and finds its blocks."""
        timed: list[TimedStep] = []
        room = self._pool.num_free + self._pool.num_cached
        durations = self._executor.decode_steps(self._num_computed)
        while start_s < until_s and len(timed) < self.most_steps:
            room -= len(self._growing(len(timed)))
            if room < 0:
                break
            duration_s, detail = next(durations)
            timed.append((start_s, duration_s, detail))
            start_s += duration_s
        return timed

    def draw_tokens(self, num_steps: int) -> int:
        """Append what the steps sample, and give how many of them are left when the first of them ends a sequence."""
        for sequence, first in zip(self.sequences, self._num_output, strict=True):
            tokens = self._executor.decode_tokens(sequence.params, first, num_steps)
            num_steps = _steps_to_stop(sequence, tokens, first)
            sequence.output_ids.extend(tokens)
        return num_steps

    def take_step(self, number: int, start_s: float, duration_s: float, detail: StepDetail | None) -> SteadyStep:
        """Take and publish blocks as the step does."""
        pool = self._pool
        for sequence in self._growing(number):
            block = pool.allocate_one()
            assert block is not None, "time_steps saw room for it"
            sequence.block_table += (block,)
            self._sum_blocks += 1
        if self._scheduler.config.prefix_cache:
            self._publish(number)
        used = pool.num_held
        computed = self._sum_computed + (number + 1) * len(self.sequences)
        slots = computed - (self._sum_blocks - used) * pool.block_size
        return SteadyStep(start_s, duration_s, detail, used, pool.num_cached, pool.num_free, slots)

    def settle(self, num_steps: int) -> dict[str, tuple[int, ...]]:
        """Leave the sequences as `num_steps` steps do; gives their tokens."""
        tokens = {}
        for sequence, computed, output in zip(self.sequences, self._num_computed, self._num_output, strict=True):
            sequence.num_computed_tokens = computed + num_steps
            del sequence.output_ids[output + num_steps :]
            tokens[sequence.request_id] = tuple(sequence.output_ids[output:])
        return tokens

    def _growing(self, number: int) -> list[Sequence]:
        """Those whose token of this step needs a new block, in order."""
        return self._lacking if number == 0 else self._filling.get((number - 1) % self._pool.block_size, [])

    def _publish(self, number: int) -> None:
        for sequence in self._filling.get(number % self._pool.block_size, ()):
            # Its last token of this step is not computed yet, and all before it are.
            sequence.num_computed_tokens = (sequence.num_published_blocks + 1) * self._pool.block_size
            self._scheduler.publish_full_blocks(sequence)


@dataclass(slots=True)
class SteadyPlan:
    """Steps that an engine is to take next; the first `num_taken` of them it has. `batch` is theirs until then."""

    timed: list[TimedStep]
    batch: SteadyBatch | None
    num_taken: int = 0


def find_steady_batch(scheduler: Scheduler, executor: SteadyExecutor) -> SteadyBatch | None:
    """The batch of the next steps, if it is sure that the next one is a decode of all that run and of nothing else."""
    running = scheduler.running
    if scheduler.config.num_lookahead_tokens:
        return None
    # The last in order are the likeliest to be prefilling still.
    if not running or not all(_is_plain_decode(sequence) for sequence in reversed(running)):
        return None
    return None if scheduler.may_admit_while_decoding() else SteadyBatch(scheduler, executor)


def _is_plain_decode(sequence: Sequence) -> bool:
    """Whether the sequence's next step computes one token after an output token and depends on lengths alone."""
    return (
        sequence.num_uncomputed_tokens == 1
        and sequence.prefill_done_s is not None
        and sequence.structure is None
        and not sequence.looks_back
        and sequence.params.logprobs is None
    )


def _steps_to_stop(sequence: Sequence, tokens: Collection[int], first: int) -> int:
    """How many of `tokens`, which begin with output token number `first`, come before the sequence has stopped."""
    params = sequence.params
    stops = () if params.ignore_eos else params.stop_token_ids
    if not stops or set(stops).isdisjoint(tokens):
        return len(tokens)
    places = (place for place, token in enumerate(tokens, 1) if token in stops and first + place >= params.min_tokens)
    return next(places, len(tokens))
