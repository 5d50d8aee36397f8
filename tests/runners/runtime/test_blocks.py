"""BlockPool: references, the prefix cache and its eviction, and an accounting that notices what went wrong."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from runners.runtime.blocks import BlockAccountingError, BlockPool

BLOCK_SIZE = 2
SAME_HASH = 2**61 - 1  # CPython hashes integers modulo this prime

Tokens = tuple[int, ...]


def split(tokens: Tokens) -> list[Tokens]:
    """The full blocks of `tokens`."""
    full = len(tokens) // BLOCK_SIZE * BLOCK_SIZE
    return [tokens[start : start + BLOCK_SIZE] for start in range(0, full, BLOCK_SIZE)]


def store(pool: BlockPool, tokens: Tokens) -> Tokens:
    """Take blocks for `tokens`, those found in the cache first, and publish them all."""
    chunks = split(tokens)
    hits = pool.match(chunks)
    table = pool.allocate(len(chunks) - len(hits), shared=hits)
    assert table is not None
    return publish(pool, table, chunks)


def publish(pool: BlockPool, table: Tokens, chunks: list[Tokens]) -> Tokens:
    used: list[int] = []
    for block, chunk in zip(table, chunks, strict=True):
        # What was matched is published already.
        known = block in pool.match([*chunks[: len(used)], chunk])
        used.append(block if known else pool.publish(block, used[-1] if used else None, chunk))
    return tuple(used)


def test_a_new_pool_is_all_free() -> None:
    pool = BlockPool(5, BLOCK_SIZE)
    assert (pool.num_free, pool.num_cached, pool.num_held) == (5, 0, 0)
    assert [pool.blocks_for(tokens) for tokens in (0, 1, 2, 3)] == [0, 1, 1, 2]


def test_a_pool_takes_memory_for_the_blocks_that_were_handed_out_alone() -> None:
    pool = BlockPool(10**12, BLOCK_SIZE)
    table = pool.allocate(3)
    assert table == (0, 1, 2)
    pool.release(table[:1])
    assert (pool.num_free, pool.num_held) == (10**12 - 2, 2)
    assert [pool.allocate_one(), pool.allocate_one()] == [0, 3], "what was given back goes first"
    pool.check_integrity([(0,), table[1:], (3,)])


def test_allocating_more_than_there_is_gives_none_and_changes_nothing() -> None:
    pool = BlockPool(3, BLOCK_SIZE)
    cached = store(pool, (1, 2, 3, 4))
    pool.release(cached)
    assert pool.allocate(2, shared=cached) is None
    assert (pool.num_free, pool.num_cached, pool.num_held) == (1, 2, 0)
    pool.check_integrity([])


def test_a_published_prefix_is_found_as_far_as_it_goes() -> None:
    pool = BlockPool(8, BLOCK_SIZE)
    table = store(pool, (1, 2, 3, 4, 5, 6))
    assert pool.match(split((1, 2, 3, 4, 9, 9))) == table[:2]
    assert pool.match(split((3, 4))) == ()


def test_the_same_tokens_after_another_prefix_are_another_block() -> None:
    pool = BlockPool(8, BLOCK_SIZE)
    first, second = store(pool, (1, 1, 7, 7)), store(pool, (2, 2, 7, 7))
    assert set(first).isdisjoint(second)
    assert pool.match(split((2, 2, 7, 7))) == second


def test_a_hash_collision_serves_no_other_prefix() -> None:
    tokens, colliding = (3, 4), (3 + SAME_HASH, 4)
    assert hash((0, tokens)) == hash((0, colliding))
    pool = BlockPool(4, BLOCK_SIZE)
    held = store(pool, tokens)
    assert pool.match([colliding]) == ()
    assert set(store(pool, colliding)).isdisjoint(held)


def test_an_unpublished_block_is_not_found_and_is_free_after_release() -> None:
    pool = BlockPool(2, BLOCK_SIZE)
    table = pool.allocate(1)
    assert table is not None
    assert pool.match([(1, 2)]) == ()
    pool.release(table)
    assert pool.num_free == 2


def test_a_second_copy_of_a_prefix_is_given_up_for_the_first() -> None:
    pool = BlockPool(4, BLOCK_SIZE)
    chunks = split((1, 2, 3, 4))
    tables = [pool.allocate(2), pool.allocate(2)]
    first, second = (publish(pool, table, chunks) for table in tables if table)
    assert first == second
    assert (pool.num_held, pool.num_free) == (2, 2)
    pool.check_integrity([first, second])


def test_the_least_recently_used_prefix_is_evicted_first_and_its_tail_before_its_head() -> None:
    pool = BlockPool(4, BLOCK_SIZE)
    old, new = store(pool, (1, 1, 2, 2)), store(pool, (3, 3, 4, 4))
    pool.release(old)
    pool.release(new)
    assert pool.allocate(1) == (old[1],)
    assert pool.match(split((1, 1, 2, 2))) == old[:1]
    assert pool.allocate(1) == (old[0],)
    assert pool.match(split((3, 3, 4, 4))) == new


def test_a_hit_makes_a_prefix_recent_again() -> None:
    pool = BlockPool(2, BLOCK_SIZE)
    old, new = store(pool, (1, 1)), store(pool, (2, 2))
    pool.release(old)
    pool.release(new)
    pool.release(store(pool, (1, 1)))
    assert pool.allocate(1) == new


def test_a_parent_that_comes_back_does_not_bring_its_evicted_child() -> None:
    pool = BlockPool(2, BLOCK_SIZE)
    pool.release(store(pool, (1, 1, 2, 2)))
    filler = pool.allocate(2)
    assert filler is not None
    pool.release(filler)
    store(pool, (1, 1))
    assert len(pool.match(split((1, 1, 2, 2)))) == 1
    pool.check_integrity([pool.match([(1, 1)])])


def test_releasing_twice_is_an_error() -> None:
    pool = BlockPool(2, BLOCK_SIZE)
    table = pool.allocate(1)
    assert table is not None
    pool.release(table)
    with pytest.raises(BlockAccountingError, match="released more often"):
        pool.release(table)


def test_a_block_that_no_table_names_is_a_leak() -> None:
    pool = BlockPool(3, BLOCK_SIZE)
    table = pool.allocate(2)
    assert table is not None
    with pytest.raises(BlockAccountingError, match=rf"block tables at blocks \[{table[1]}\]"):
        pool.check_accounting([table[:1]])


def test_a_free_block_listed_twice_is_noticed() -> None:
    pool = BlockPool(3, BLOCK_SIZE)
    pool.release(pool.allocate(3) or ())
    pool._free[0] = pool._free[1]
    with pytest.raises(BlockAccountingError, match="3 free"):
        pool.check_accounting([])


def test_a_prefix_entry_for_a_block_with_other_content_is_noticed() -> None:
    pool = BlockPool(3, BLOCK_SIZE)
    table = store(pool, (1, 2, 3, 4))
    pool._published[(0, (1, 2))] = table[1]
    with pytest.raises(BlockAccountingError, match="what it does not hold"):
        pool.check_integrity([table])


def test_a_prefix_must_be_published_from_its_start() -> None:
    pool = BlockPool(3, BLOCK_SIZE)
    table = pool.allocate(2)
    assert table is not None
    with pytest.raises(BlockAccountingError, match="never published"):
        pool.publish(table[1], table[0], (3, 4))


class BlockPoolMachine(RuleBasedStateMachine):
    """Holders come, publish, grow and go in any order; a model remembers what each block really holds."""

    tables: Bundle[int] = Bundle("tables")

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(6, BLOCK_SIZE)
        self.held: dict[int, tuple[Tokens, Tokens]] = {}
        self.prefix_of: dict[int, Tokens] = {}

    @rule(target=tables, tokens=st.lists(st.integers(0, 1), max_size=9).map(tuple))
    def admit(self, tokens: Tokens) -> object:
        chunks = split(tokens)
        hits = self.pool.match(chunks)
        for count, block in enumerate(hits, 1):
            assert self.prefix_of[block] == tokens[: count * BLOCK_SIZE]
        needed = self.pool.blocks_for(len(tokens)) - len(hits)
        revived = sum(block not in self.held_blocks() for block in hits)
        table = self.pool.allocate(needed, shared=hits)
        assert (table is None) == (needed + revived > 6 - len(self.held_blocks()))
        if table is None:
            return multiple()
        assert set(table[len(hits) :]).isdisjoint(self.held_blocks())
        for block in table[len(hits) :]:
            self.prefix_of.pop(block, None)
        holder = max(self.held, default=0) + 1
        self.held[holder] = (tokens, table)
        return holder

    @rule(holder=tables)
    def publish_all(self, holder: int) -> None:
        tokens, table = self.held[holder]
        chunks = split(tokens)
        used = publish(self.pool, table[: len(chunks)], chunks)
        for count, block in enumerate(used, 1):
            assert self.prefix_of.setdefault(block, tokens[: count * BLOCK_SIZE]) == tokens[: count * BLOCK_SIZE]
        self.held[holder] = (tokens, used + table[len(chunks) :])

    @rule(holder=consumes(tables))
    def release(self, holder: int) -> None:
        self.pool.release(self.held.pop(holder)[1])

    @invariant()
    def every_block_is_accounted_for(self) -> None:
        self.pool.check_integrity(table for _, table in self.held.values())
        assert self.pool.num_held == len(self.held_blocks())
        assert self.pool.num_free + self.pool.num_cached + self.pool.num_held == 6

    @invariant()
    def what_is_published_and_held_is_found(self) -> None:
        for _, table in self.held.values():
            for block in table:
                if block in self.prefix_of:
                    assert self.pool.match(split(self.prefix_of[block]))[-1] == block

    def held_blocks(self) -> set[int]:
        return {block for _, table in self.held.values() for block in table}


TestBlockPoolMachine = BlockPoolMachine.TestCase
TestBlockPoolMachine.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
