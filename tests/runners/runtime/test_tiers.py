"""Tiers below the prefix cache: what is evicted is kept there, found again, loaded, and dropped when they are full."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_setups import Setup, named, setups
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference_executor import expected_output
from tiered_executor import TieredExecutor

from runners.runtime.blocks import BlockAccountingError, BlockPool
from runners.runtime.engine import Engine, StepOutput
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import ReceivedKV, SamplingParams
from runners.runtime.tiers import PrefixTier, TierLoad

Tokens = tuple[int, ...]

HOST, REMOTE = PrefixTier("host", 2), PrefixTier("remote", 3)
ONE_TOKEN = SamplingParams(max_tokens=1, ignore_eos=True)


def prompt(number: int, num_tokens: int = 9) -> Tokens:
    return tuple(range(number * 100, number * 100 + num_tokens))


def make_engine(*tiers: PrefixTier, num_blocks: int = 3) -> Engine:
    return Engine(TieredExecutor(num_blocks, block_size=4), SchedulerConfig(prefix_tiers=tiers))


def serve(engine: Engine, name: str, tokens: Tokens, params: SamplingParams = ONE_TOKEN) -> list[StepOutput]:
    executor = engine.executor
    assert isinstance(executor, TieredExecutor)
    executor.texts[name] = tokens
    engine.add(name, tokens, params)
    outputs = []
    while engine.has_work:
        output = engine.step()
        assert output is not None
        engine.check_integrity()
        outputs.append(output)
    assert tuple(token.token_id for out in outputs for token in out.tokens) == expected_output(tokens, params)
    return outputs


def test_without_tiers_what_is_evicted_is_gone() -> None:
    engine = make_engine()
    for number in (1, 2, 1):
        output = serve(engine, "a", prompt(number))[0]
        assert (output.step.cached_tokens, output.step.loaded_tokens, output.step.prefill_tokens) == (0, 0, 9)


def test_an_evicted_prefix_is_loaded_from_its_tier_instead_of_computed() -> None:
    engine = make_engine(HOST)
    serve(engine, "a", prompt(1))
    serve(engine, "b", prompt(2))
    assert engine.count_prefix(prompt(1)) == 8
    output = serve(engine, "c", prompt(1))[0]
    assert (output.step.cached_tokens, output.step.loaded_tokens, output.step.prefill_tokens) == (8, 8, 1)
    timing = output.tokens[0].timing
    assert timing is not None
    assert (timing.cached_tokens, timing.loaded) == (8, (TierLoad("host", 8),))
    assert isinstance(engine.executor, TieredExecutor)
    assert engine.executor.loads == [("c", TierLoad("host", 8))]


def test_a_full_tier_hands_its_oldest_on_to_the_next_and_the_last_one_drops_it() -> None:
    engine = make_engine(HOST, REMOTE)
    for number in range(1, 5):
        serve(engine, str(number), prompt(number))
    # 4 is on the chip, 3 in the host's memory, 2 in the store, of 1 the first block too: its last one went first.
    assert [engine.count_prefix(prompt(number)) for number in range(1, 5)] == [4, 8, 8, 8]
    output = serve(engine, "again", prompt(2))[0]
    assert output.tokens[0].timing is not None
    assert output.tokens[0].timing.loaded == (TierLoad("remote", 8),)


def test_a_prefix_may_lie_in_several_places() -> None:
    engine = make_engine(PrefixTier("host", 1), REMOTE, num_blocks=4)
    serve(engine, "a", prompt(1, 13))
    serve(engine, "b", prompt(2, 9))
    output = serve(engine, "c", prompt(1, 13))[0]
    assert (output.step.cached_tokens, output.step.loaded_tokens) == (12, 8)
    assert output.tokens[0].timing is not None
    assert output.tokens[0].timing.loaded == (TierLoad("host", 4), TierLoad("remote", 4))


def test_what_is_loaded_leaves_its_tier() -> None:
    pool = BlockPool(2, 2, (HOST,))
    store(pool, (1, 1, 2, 2))
    pool.release(store(pool, (3, 3, 4, 4), evict_all=True))
    match = pool.match_all(split((1, 1, 2, 2)))
    assert (len(match.hits), len(match.below)) == (0, 2)
    table = pool.allocate(2, (), match.below)
    assert table is not None
    assert pool.match(split((1, 1, 2, 2))) == table
    assert len(pool.match_all(split((3, 3, 4, 4))).below) == 2
    pool.check_integrity([table])


def test_what_comes_after_a_block_in_a_tier_is_still_found_when_the_block_is_computed_again() -> None:
    pool = BlockPool(2, 2, (HOST,))
    store(pool, (1, 1, 2, 2))
    pool.release(store(pool, (3, 3), evict_all=True))
    table = pool.allocate(1)
    assert table is not None
    assert pool.publish(table[0], None, (1, 1)) == table[0]
    match = pool.match_all(split((1, 1, 2, 2)))
    assert (match.hits, len(match.below)) == (table, 1)
    pool.check_integrity([table])


def test_a_preempted_sequence_finds_in_a_tier_what_was_evicted_of_it() -> None:
    engine = make_engine(PrefixTier("host", 50), num_blocks=7)
    assert isinstance(engine.executor, TieredExecutor)
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    for name, number in {"a": 1, "b": 2}.items():
        engine.executor.texts[name] = prompt(number)
        engine.add(name, prompt(number), params)
    answers: dict[str, Tokens] = {"a": (), "b": ()}
    loaded = preempted = 0
    while engine.has_work:
        output = engine.step()
        assert output is not None
        engine.check_integrity()
        loaded, preempted = loaded + output.step.loaded_tokens, preempted + output.step.preempted
        for token in output.tokens:
            answers[token.request_id] += (token.token_id,)
    assert preempted and loaded
    assert answers == {"a": expected_output(prompt(1), params), "b": expected_output(prompt(2), params)}


def test_what_is_received_is_not_loaded_too() -> None:
    engine = make_engine(HOST)
    serve(engine, "a", prompt(1))
    serve(engine, "b", prompt(2))
    engine.add("c", prompt(1), SamplingParams(max_tokens=2), received=ReceivedKV(9, (5,)))
    output = engine.step()
    assert output is not None
    assert (output.step.cached_tokens, output.step.loaded_tokens, output.step.decode_tokens) == (0, 0, 1)
    engine.check_integrity()


@pytest.mark.parametrize("tiers", [(PrefixTier("host", 1), PrefixTier("host", 2))])
def test_two_tiers_of_one_name_are_refused(tiers: tuple[PrefixTier, ...]) -> None:
    with pytest.raises(ValueError, match=r"prefix_tiers: names .* each name once"):
        make_engine(*tiers)


def test_a_tier_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="num_blocks of tier host: 0 is not allowed; allowed: at least 1"):
        PrefixTier("host", 0)


def test_a_prefix_that_is_kept_twice_is_noticed() -> None:
    pool = BlockPool(2, 2, (HOST,))
    table = store(pool, (1, 1))
    key = pool._keys[table[0]]
    assert pool._tiers is not None and key is not None
    pool._tiers.put(key, 99)
    with pytest.raises(BlockAccountingError, match="kept twice"):
        pool.check_integrity([table])


def test_what_a_tier_keeps_and_no_prefix_reaches_is_noticed() -> None:
    pool = BlockPool(1, 2, (HOST,))
    pool.release(store(pool, (1, 1)))
    pool.release(store(pool, (2, 2)))
    assert pool._tiers is not None
    pool._tiers.put((99, (3, 3)), 98)
    with pytest.raises(BlockAccountingError, match="no prefix reaches"):
        pool.check_integrity([])


def split(tokens: Tokens) -> list[Tokens]:
    return [tokens[start : start + 2] for start in range(0, len(tokens) // 2 * 2, 2)]


def store(pool: BlockPool, tokens: Tokens, *, evict_all: bool = False) -> Tokens:
    """Take blocks for `tokens` as the scheduler does, and publish what was not known. With `evict_all`, first let go of
    everything and fill the pool once."""
    if evict_all:
        pool.release(tuple(block for block, count in enumerate(pool._references) for _ in range(count)))
        filler = pool.allocate(pool.num_blocks)
        assert filler is not None
        pool.release(filler)
    chunks = split(tokens)
    match = pool.match_all(chunks)
    table = pool.allocate(len(chunks) - len(match.hits), match.hits, match.below)
    assert table is not None
    used = list(table)
    for index in range(match.num_blocks, len(chunks)):
        used[index] = pool.publish(used[index], used[index - 1] if index else None, chunks[index])
    return tuple(used)


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=10).map(tuple), max_size=25),
    sizes=st.lists(st.integers(1, 6), max_size=2),
    ample=st.booleans(),
)
def test_only_what_was_published_is_found_and_all_of_it_while_there_is_room(
    texts: list[Tokens], sizes: list[int], ample: bool
) -> None:
    tiers = [PrefixTier(str(place), size) for place, size in enumerate(sizes)]
    if ample:
        tiers.append(PrefixTier("ample", 1000))
    pool = BlockPool(6, 2, tuple(tiers))
    published: set[tuple[Tokens, ...]] = set()
    held: list[Tokens] = []
    for text in texts:
        chunks = split(text)
        longest = max((end for end in range(len(chunks) + 1) if tuple(chunks[:end]) in published), default=0)
        found = pool.match_all(chunks).num_blocks
        assert found == longest if ample else found <= longest
        while held and not pool.has_room(len(chunks) - len(hits := pool.match(chunks)), hits):
            pool.release(held.pop(0))
        held.append(store(pool, text))
        published |= {tuple(chunks[:end]) for end in range(1, len(chunks) + 1)}
        pool.check_integrity(held)


@settings(max_examples=200, deadline=None)
@given(setup=setups(), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=2))
def test_whatever_is_loaded_the_answers_are_the_same(setup: Setup, sizes: list[int]) -> None:
    tiers = tuple(PrefixTier(str(place), size) for place, size in enumerate(sizes))
    config = replace(setup.config, prefix_cache=True, prefix_tiers=tiers)
    executor = TieredExecutor(setup.num_blocks, setup.block_size)
    engine = Engine(executor, config)
    answers: dict[str, Tokens] = {}
    for name, request in named(setup):
        executor.texts[name], answers[name] = request.prompt_ids, ()
        engine.add(name, request.prompt_ids, request.params, request.priority)
    while engine.has_work:
        output = engine.step()
        assert output is not None
        engine.check_integrity()
        for token in output.tokens:
            answers[token.request_id] += (token.token_id,)
    event(f"loaded: {bool(executor.loads)}")
    assert engine.step() is None
    for name, request in named(setup):
        assert answers[name] == expected_output(request.prompt_ids, request.params)
