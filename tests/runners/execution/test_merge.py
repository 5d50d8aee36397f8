"""runners.execution.merge: every step counts in exactly one sample, wherever the engine's answers fall."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runners.events import KVBlocks, Step
from runners.execution.merge import SampleMerger, on_run_clock


def step(index: int, start_s: float, duration_s: float, **fields: Any) -> Step:
    values = {
        "prefill_tokens": 0, "decode_tokens": 1, "running": 1, "waiting": 0,
        "kv_used_blocks": 1, "kv_cached_blocks": 0, "kv_free_blocks": 9, "kv_used_slots": 5,
    }  # fmt: skip
    return Step(index=index, start_s=start_s, duration_s=duration_s, **(values | fields))


def tick(t_s: float) -> dict[str, Any]:
    return {"t_s": t_s, "interval_s": 0.25, "phase": "measured", "output_tokens": 1}


def test_a_tick_waits_until_the_steps_up_to_it_are_known() -> None:
    merger = SampleMerger()
    merger.add_tick(tick(0.25))
    merger.add_steps([step(1, 0.0, 0.1)], known_until_s=0.2)
    assert merger.take() == []
    merger.add_steps([step(2, 0.1, 0.1)], known_until_s=0.3)
    (sample,) = merger.take()
    assert (sample.t_s, sample.steps, sample.output_tokens) == (0.25, 2, 1)


def test_a_step_counts_where_it_ended() -> None:
    merger = SampleMerger()
    for t_s in (0.25, 0.5, 0.75):
        merger.add_tick(tick(t_s))
    merger.add_steps([step(1, 0.1, 0.6, running=3)], known_until_s=1.0)
    samples = merger.take()
    assert [sample.steps for sample in samples] == [0, 0, 1]
    assert [sample.running_max for sample in samples] == [None, None, 3]


def test_mean_and_max_are_over_the_intervals_steps() -> None:
    merger = SampleMerger()
    merger.add_tick(tick(0.25))
    merger.add_steps([step(1, 0.0, 0.1, waiting=1), step(2, 0.1, 0.1, waiting=4)], known_until_s=1.0)
    (sample,) = merger.take()
    assert (sample.waiting_mean, sample.waiting_max, sample.kv_used_max) == (2.5, 4, 0.1)


@given(
    durations=st.lists(st.floats(0.001, 0.7), max_size=40),
    page_sizes=st.lists(st.integers(1, 6), min_size=40, max_size=40),
    late_s=st.floats(0, 0.4),
)
def test_no_step_is_lost_or_counted_twice(durations: list[float], page_sizes: list[int], late_s: float) -> None:
    """Steps in pages of any size, each known a little later than it happened, ticks in between."""
    steps, now_s = [], 0.0
    for index, duration_s in enumerate(durations, start=1):
        steps.append(step(index, now_s, duration_s))
        now_s += duration_s
    merger, samples = SampleMerger(), []
    ticks = [tick(0.25 * number) for number in range(1, int(now_s / 0.25) + 3)]
    left = list(steps)
    for size in page_sizes:
        page, left = left[:size], left[size:]
        end_s = page[-1].start_s + page[-1].duration_s if page else now_s
        while ticks and ticks[0]["t_s"] <= end_s + late_s:
            merger.add_tick(ticks.pop(0))
        merger.add_steps(page, known_until_s=end_s - late_s)
        samples += merger.take()
    for one in ticks:
        merger.add_tick(one)
    samples += merger.finish()
    assert sum(sample.steps for sample in samples) == len(steps)
    assert [sample.t_s for sample in samples] == sorted(sample.t_s for sample in samples)


def test_steps_are_moved_to_the_runs_clock() -> None:
    assert on_run_clock(step(1, 105.5, 0.2), zero_s=100.0).start_s == 5.5


def test_a_sample_says_who_held_the_blocks_about_its_end():
    merger = SampleMerger()
    held = KVBlocks(owners={"measured-1": 3}, shared=1, cached=0, free=6)
    merger.add_tick(tick(0.25))
    merger.add_steps([], 0.3, held)
    merger.add_tick(tick(0.5))
    first = merger.take()
    merger.add_steps([], 0.55, None)
    assert [sample.kv_blocks for sample in [*first, *merger.take()]] == [held, None]
