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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runners.events import Step
from runners.runtime.executor import SteadyExecutor, StepDetail
from runners.runtime.outputs import StepOutput, TokenOutput
from runners.runtime.scheduler import Scheduler
from runners.runtime.sequence import SamplingParams
from runners.runtime.sequence import Sequence as EngineSequence

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
    tokens: Mapping[str, Sequence[int]]
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


class SteadyPlan:
    """Steps of one batch that an engine is to take next: `timed` are all of them, the first `num_taken` it has taken.

    Steps are numbered from 0. While a plan is being taken nothing else may be done with its engine: a request that is
    added, or blocks that are released, might change the next step. Whoever does so leaves the rest of the plan.
    """

    def __init__(self, scheduler: Scheduler, executor: SteadyExecutor, start_s: float, until_s: float) -> None:
        self.sequences = tuple(scheduler.running)
        self.num_taken = 0
        self._scheduler = scheduler
        self._executor = executor
        self._pool = scheduler.pool
        self._starts = [sequence.num_computed_tokens for sequence in self.sequences]
        self._lacking: list[EngineSequence] = []
        self._filling: dict[int, list[EngineSequence]] = defaultdict(list)
        size = self._pool.block_size
        for sequence, start in zip(self.sequences, self._starts, strict=True):
            self._filling[(-start - 1) % size].append(sequence)
            if len(sequence.block_table) * size <= start:
                self._lacking.append(sequence)
        holders = scheduler.holders()
        self._num_blocks = sum([len(sequence.block_table) for sequence in holders])
        self._num_computed = sum([sequence.num_computed_tokens for sequence in holders])
        self.timed = self._time_steps(start_s, until_s)

    def take(self, upto: int) -> tuple[tuple[SteadyStep, ...], dict[str, Sequence[int]]]:
        """Take the first `upto` steps, but for those that were taken, up to one whose stop token ends a sequence. Gives
        them, and their tokens by request."""
        first = self.num_taken
        tokens, num_steps = self._draw_tokens(min(upto, len(self.timed)) - first)
        steps = tuple([self._take_step(number) for number in range(first, first + num_steps)])
        self.num_taken += num_steps
        for sequence, start in zip(self.sequences, self._starts, strict=True):
            sequence.num_computed_tokens = start + self.num_taken
        return steps, tokens

    def _time_steps(self, start_s: float, until_s: float) -> list[TimedStep]:
        """Each step that starts before `until_s` and finds its blocks, up to the first that ends a sequence."""
        timed: list[TimedStep] = []
        most = min([sequence.params.max_tokens - len(sequence.output_ids) for sequence in self.sequences])
        room = self._pool.num_free + self._pool.num_cached
        steps = self._executor.decode_steps(self._starts)
        while start_s < until_s and len(timed) < most:
            room -= len(self._growing(len(timed)))
            if room < 0:
                break
            duration_s, detail = next(steps)
            timed.append((start_s, duration_s, detail))
            start_s += duration_s
        return timed

    def _draw_tokens(self, num_steps: int) -> tuple[dict[str, Sequence[int]], int]:
        """Append what the steps sample; gives it, and how many steps are left where the first stop token ends them."""
        wanted, tokens = num_steps, {}
        for sequence in self.sequences:
            first = len(sequence.output_ids)
            drawn = self._executor.decode_tokens(sequence.params, first, wanted)
            if not sequence.params.ignore_eos and sequence.params.stop_token_ids:
                num_steps = min(num_steps, _steps_to_stop(sequence.params, drawn, first))
            sequence.output_ids.extend(drawn)
            tokens[sequence.request_id] = drawn
        if num_steps < wanted:
            for sequence in self.sequences:
                del sequence.output_ids[num_steps - wanted :]
            tokens = {name: drawn[:num_steps] for name, drawn in tokens.items()}
        return tokens, num_steps

    def _take_step(self, number: int) -> SteadyStep:
        """Take and publish blocks as the step does."""
        pool = self._pool
        for sequence in self._growing(number):
            block = pool.allocate_one()
            assert block is not None, "there was room for it when the steps were timed"
            sequence.block_table += (block,)
            self._num_blocks += 1
        if self._scheduler.config.prefix_cache:
            self._publish(number)
        used = pool.num_held
        computed = self._num_computed + (number + 1) * len(self.sequences)
        # As in EngineStats: each reference to a block past the first counts a whole block of slots again.
        slots = computed - (self._num_blocks - used) * pool.block_size
        return SteadyStep(*self.timed[number], used, pool.num_cached, pool.num_free, slots)

    def _growing(self, number: int) -> list[EngineSequence]:
        """Those whose token of this step needs a new block, in order."""
        return self._lacking if number == 0 else self._filling.get((number - 1) % self._pool.block_size, [])

    def _publish(self, number: int) -> None:
        for sequence in self._filling.get(number % self._pool.block_size, ()):
            # Its last token of this step is not computed yet, and all before it are.
            sequence.num_computed_tokens = (sequence.num_published_blocks + 1) * self._pool.block_size
            self._scheduler.publish_full_blocks(sequence)


def plan_steady(scheduler: Scheduler, executor: SteadyExecutor, start_s: float, until_s: float) -> SteadyPlan | None:
    """The steps that come, if it is sure that the next one is a decode of all that run and of nothing else."""
    running = scheduler.running
    if scheduler.config.num_lookahead_tokens or not running:
        return None
    # The last in order are the likeliest to be prefilling still.
    if not all(_is_plain_decode(sequence) for sequence in reversed(running)):
        return None
    if scheduler.may_admit_while_decoding():
        return None
    plan = SteadyPlan(scheduler, executor, start_s, until_s)
    return plan if plan.timed else None


def _is_plain_decode(sequence: EngineSequence) -> bool:
    """Whether the sequence's next step computes one token after an output token and depends on lengths alone."""
    return (
        not sequence.looks_beyond_lengths
        and sequence.prefill_done_s is not None
        and sequence.num_uncomputed_tokens == 1
    )


def _steps_to_stop(params: SamplingParams, tokens: Sequence[int], first: int) -> int:
    """How many of `tokens`, which begin with output token number `first`, come until one of them stops a sequence."""
    stops = frozenset(params.stop_token_ids)
    if stops.isdisjoint(tokens):
        return len(tokens)
    places = (place for place, token in enumerate(tokens, 1) if token in stops and first + place >= params.min_tokens)
    return next(places, len(tokens))
