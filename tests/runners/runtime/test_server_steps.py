"""The ring of steps: each is read once, and what was lost is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runners.events import EVENT, Step
from runners.runtime.serving.steps import StepRing, step_fields, step_values


def step(index: int) -> Step:
    return Step(
        index=index,
        start_s=1.5,
        duration_s=0.25,
        prefill_tokens=3,
        decode_tokens=2,
        running=2,
        waiting=1,
        kv_used_blocks=4,
        kv_cached_blocks=5,
        kv_free_blocks=6,
        kv_used_slots=7,
    )


def test_a_step_survives_the_way_to_the_client() -> None:
    assert EVENT.validate_python(step_fields(step_values(step(9)))) == step(9)


@given(st.lists(st.integers(1, 30), max_size=8), st.integers(1, 12), st.integers(1, 20))
def test_a_reader_gets_every_step_once_or_hears_that_it_was_dropped(
    bursts: list[int], limit: int, capacity: int
) -> None:
    ring, after, made, seen, dropped = StepRing(capacity), 0, 0, [], 0
    for burst in [*bursts, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]:
        for _ in range(burst):
            made += 1
            ring.append(step_values(step(made)))
        page = ring.read(after, limit)
        assert len(page.steps) <= limit
        seen += [int(values[0]) for values in page.steps]
        dropped, after = dropped + page.dropped, page.next
    assert seen == sorted(set(seen))
    assert len(seen) + dropped == made


def test_an_empty_ring_leaves_the_reader_where_it_was() -> None:
    assert StepRing().read(7, 10).next == 7
