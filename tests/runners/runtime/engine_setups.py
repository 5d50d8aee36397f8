"""Loads that crowd a small engine, and a drive through one of them that checks every step on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from reference_executor import VOCAB_SIZE, ReferenceExecutor

from runners.runtime.engine import Engine, StepOutput
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams, SequenceState


@dataclass(frozen=True)
class Request:
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    priority: int
    arrives_at: int
    aborted_after: int | None


@dataclass(frozen=True)
class Setup:
    num_blocks: int
    block_size: int
    config: SchedulerConfig
    requests: list[Request]

    @property
    def num_slots(self) -> int:
        return self.num_blocks * self.block_size


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """A pool so small that preemption and eviction are common, prompts so alike that prefixes are shared."""
    block_size, num_blocks = draw(st.integers(1, 4)), draw(st.integers(2, 12))
    slots = block_size * num_blocks
    max_num_seqs = draw(st.integers(1, 5))
    config = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=draw(st.integers(max_num_seqs, max_num_seqs + 12)),
        prefix_cache=draw(st.booleans()),
        chunked_prefill=draw(st.booleans()),
    )
    longest = slots if config.chunked_prefill else min(slots, config.max_num_batched_tokens)
    document = tuple(draw(st.lists(st.integers(0, 1), min_size=longest, max_size=longest)))
    requests = draw(st.lists(requests_about(document, slots), min_size=1, max_size=8))
    return Setup(num_blocks, block_size, config, requests)


@st.composite
def requests_about(draw: st.DrawFn, document: tuple[int, ...], slots: int) -> Request:
    """The beginning of the document, perhaps with another last token, and an output that just fits or is short."""
    prompt = document[: draw(st.integers(1, len(document)))]
    prompt = (*prompt[:-1], draw(st.integers(0, 1)))
    room = slots + 1 - len(prompt)
    max_tokens = draw(st.integers(1, room) | st.just(room))
    params = SamplingParams(
        max_tokens=max_tokens,
        min_tokens=draw(st.integers(0, max_tokens)),
        seed=draw(st.integers(0, 1)),
        ignore_eos=draw(st.booleans()),
        stop_token_ids=tuple(draw(st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=2))),
    )
    aborted_after = draw(st.none() | st.integers(0, 12))
    return Request(prompt, params, draw(st.integers(0, 2)), draw(st.integers(0, 8)), aborted_after)


@dataclass
class Outcome:
    tokens: dict[str, tuple[int, ...]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)
    preempted: int = 0
    cached_tokens: int = 0


def simulate(setup: Setup, make_executor: Callable[[int, int], ReferenceExecutor] = ReferenceExecutor) -> Outcome:
    """Drive the engine through all arrivals and aborts to its end, checking every step on the way."""
    engine = Engine(make_executor(setup.num_blocks, setup.block_size), setup.config)
    outcome, now = Outcome(), 0
    last_event = max(request.arrives_at + (request.aborted_after or 0) for request in setup.requests)
    while engine.has_work or now <= last_event:
        arrive_and_abort(engine, setup, outcome, now)
        check_step(engine, setup, outcome)
        now += 1
        assert now < 10_000, "the engine makes no progress"
    assert engine.step() is None
    assert engine.stats().kv_used_blocks == engine.stats().kv_used_slots == 0
    return outcome


def arrive_and_abort(engine: Engine, setup: Setup, outcome: Outcome, now: int) -> None:
    for name, request in named(setup):
        if request.arrives_at == now:
            engine.add(name, request.prompt_ids, request.params, request.priority)
            outcome.tokens[name] = ()
        if request.aborted_after is not None and request.arrives_at + request.aborted_after == now:
            assert engine.abort(name) == (name not in outcome.reasons)
            if name not in outcome.reasons:
                outcome.aborted.add(name)
            engine.check_integrity()


def check_step(engine: Engine, setup: Setup, outcome: Outcome) -> None:
    running = list(engine._scheduler.running)
    decoding = [sequence for sequence in running if sequence.num_uncomputed_tokens == 1]
    had_work = engine.has_work
    output = engine.step()
    engine.check_integrity()
    assert (output is not None) == had_work
    if output is None:
        return
    check_budget_and_accounting(engine, setup, output)
    sampled = {token.request_id for token in output.tokens}
    for sequence in decoding:
        assert sequence.request_id in sampled or sequence.state is SequenceState.WAITING
    assert not running or running[0].state is not SequenceState.WAITING, "the first in order was preempted"
    for token in output.tokens:
        assert token.request_id not in outcome.reasons and token.request_id not in outcome.aborted
        outcome.tokens[token.request_id] += (token.token_id,)
        if token.finish_reason:
            outcome.reasons[token.request_id] = token.finish_reason
    outcome.preempted += output.step.preempted
    outcome.cached_tokens += output.step.cached_tokens


def check_budget_and_accounting(engine: Engine, setup: Setup, output: StepOutput) -> None:
    executor = engine.executor
    assert isinstance(executor, ReferenceExecutor)
    batch, step = executor.batches[-1], output.step
    scheduled = sum(len(share.token_ids) for share in batch)
    assert 0 < scheduled == step.prefill_tokens + step.decode_tokens <= setup.config.max_num_batched_tokens
    assert len(batch) <= step.running <= setup.config.max_num_seqs
    assert step.kv_used_blocks + step.kv_cached_blocks + step.kv_free_blocks == setup.num_blocks
    assert 0 < step.kv_used_slots <= step.kv_used_blocks * setup.block_size
    stats, slots = engine.stats(), set()
    for sequence in engine._scheduler.running:
        for position in range(sequence.num_computed_tokens):
            block = sequence.block_table[position // setup.block_size]
            slots.add((block, position % setup.block_size))
    assert stats.kv_used_slots == len(slots)
    check_holders(engine, setup)
    if not setup.config.prefix_cache:
        assert step.cached_tokens == step.kv_cached_blocks == 0


def check_holders(engine: Engine, setup: Setup) -> None:
    """Each block is told of once: as its only holder's, as shared, as cached or as free."""
    held = engine.kv_blocks()
    assert sum(held.owners.values()) + held.others + held.shared + held.cached + held.free == setup.num_blocks
    tables = {sequence.request_id: set(sequence.block_table) for sequence in engine._scheduler.running}
    for name, table in tables.items():
        others = set().union(*(blocks for other, blocks in tables.items() if other != name))
        assert held.owners[name] == len(table - others)


def named(setup: Setup) -> list[tuple[str, Request]]:
    return [(str(number), request) for number, request in enumerate(setup.requests)]
