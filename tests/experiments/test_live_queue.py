"""The bounded queue between a run's watch and one socket, and how events are cut into frames."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.live.feed import FRAME_CHARACTERS, split_frames
from experiments.live.snapshots import RunSnapshot
from experiments.live.watch import Entry, Subscription, WatchEnded

SNAPSHOT = RunSnapshot("running", "measuring", "", 1, "node", None, (), 0, False)


def entries(count: int, first: int = 1, size: int = 2) -> list[Entry]:
    return [Entry(1, seq, "x" * size) for seq in range(first, first + count)]


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 40))
def test_what_is_taken_and_what_was_dropped_are_all_that_was_offered(offers: list[int], limit: int) -> None:
    queue = Subscription(SNAPSHOT, limit)
    offered = 0
    for count in offers:
        queue.offer(entries(count, offered + 1))
        offered += count
    taken, dropped = queue.take()
    assert len(taken) <= limit
    assert len(taken) + dropped == offered
    assert [one.seq for one in taken] == list(range(dropped + 1, offered + 1))
    assert queue.take() == ([], 0)


async def test_a_changed_state_is_news_and_the_same_is_none() -> None:
    queue = Subscription(SNAPSHOT, 10)
    queue.show(RunSnapshot("running", "measuring", "", 1, "node", None, (), 0, False))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.news(), 0.05)
    queue.show(RunSnapshot("succeeded", "done", "", 1, "node", True, (), 9, True))
    await asyncio.wait_for(queue.news(), 5)
    assert queue.snapshot.state == "succeeded"


async def test_a_failed_watch_is_told_to_who_waits() -> None:
    queue = Subscription(SNAPSHOT, 10)
    waiting = asyncio.create_task(queue.news())
    queue.fail(RuntimeError("gone"))
    with pytest.raises(WatchEnded):
        await waiting


@given(st.lists(st.integers(1, FRAME_CHARACTERS * 2), max_size=12))
def test_frames_hold_every_event_once_in_order_and_stay_small(sizes: list[int]) -> None:
    offered = [Entry(1, seq, "x" * size) for seq, size in enumerate(sizes)]
    frames = list(split_frames(offered))
    assert [entry for frame in frames for entry in frame] == offered
    for frame in frames:
        assert len(frame) == 1 or sum(len(entry.text) for entry in frame) <= FRAME_CHARACTERS
