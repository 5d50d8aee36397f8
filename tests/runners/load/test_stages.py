"""Stages of load: exact levels over time, arrivals of a changing rate, users that come and go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.load.stages import Levels, staged_arrivals
from runners.load.users import StagedUsers
from runners.spec import StagedArrival


def staged(*stages: dict[str, Any], **more: Any) -> StagedArrival:
    return StagedArrival.model_validate({"kind": "stages", "stages": stages, **more})


def rates(*stages: tuple[float, float, str], **more: Any) -> StagedArrival:
    return staged(*({"duration_s": d, "request_rate": r, "ramp": ramp} for d, r, ramp in stages), **more)


def users(*stages: tuple[float, int, str]) -> StagedUsers:
    made = staged(*({"duration_s": d, "max_concurrency": n, "ramp": ramp} for d, n, ramp in stages))
    return StagedUsers(Levels(made))


def test_a_step_holds_its_level_and_a_ramp_comes_from_the_level_before() -> None:
    levels = Levels(rates((10, 4, "linear"), (5, 4, "step"), (10, 2, "linear"), (5, 8, "step")))
    assert [levels.at(t_s) for t_s in (0, 5, 10, 14.9, 20, 24, 25, 29)] == [0, 2, 4, 4, 3, 2.2, 8, 8]
    assert levels.at(30) == 0


def test_arrivals_of_a_stage_are_as_many_as_its_rate_says_and_stop_with_the_last() -> None:
    arrival = rates((100, 20, "step"), (100, 0, "step"), (100, 40, "linear"))
    times = np.array(list(staged_arrivals(arrival, np.random.default_rng(3))))
    counts = [int(((times >= start) & (times < start + 100)).sum()) for start in (0, 100, 200)]
    assert counts[0] == pytest.approx(2000, rel=0.1) and counts[1] == 0 and counts[2] == pytest.approx(2000, rel=0.1)
    assert (np.diff(times) > 0).all() and times[-1] <= 300
    # A rate that grows from 0 has a quarter of its arrivals in the first half.
    assert ((times >= 200) & (times < 250)).sum() == pytest.approx(500, rel=0.2)


def test_even_arrivals_come_at_times_known_by_hand() -> None:
    even = rates((2, 2, "step"), (4, 4, "linear"), burstiness=100)
    assert even.expected_requests == 4 + 12
    levels = Levels(even)
    step, ramp = levels.pieces
    assert [step.time_of_area(area) for area in (1, 2, 4)] == [0.5, 1.0, 2.0]
    # From 2 to 4 over 4 s: 2t + t²/4 requests after t seconds, so that 5 have come after 2 s.
    assert ramp.time_of_area(5) == pytest.approx(2 + 2.0) and ramp.time_of_area(12) == pytest.approx(6.0)


def test_one_stage_is_the_open_loop_of_its_rate() -> None:
    from_stage = list(staged_arrivals(rates((20, 3, "step")), np.random.default_rng(1)))
    gaps = np.random.default_rng(1).gamma(1.0, 1.0, 256)
    expected = [float(t) for t in np.cumsum(gaps) / 3 if t <= 20]
    assert from_stage == pytest.approx(expected[: len(from_stage)]) and len(from_stage) == len(expected)


def test_users_come_with_a_rising_level_and_go_with_a_falling_one() -> None:
    made = users((10, 4, "linear"), (10, 4, "step"), (10, 0, "linear"), (10, 2, "step"))
    assert made.most == 4
    assert [made.next_start_s(user, 0.0) for user in range(4)] == [2.5, 5.0, 7.5, 10.0]
    assert made.next_start_s(1, 12.0) == 12.0
    assert made.next_start_s(3, 20.0) == 20.0  # the level is 4 at that moment still
    assert made.next_start_s(3, 21.0) is None
    assert made.next_start_s(1, 26.0) == 30.0  # gone with the fall, back with the next step
    assert made.next_start_s(0, 40.0) is None


def test_a_peak_that_is_left_as_it_is_reached_lets_nobody_begin() -> None:
    made = users((10, 7, "linear"), (10, 0, "step"))
    assert made.next_start_s(6, 0.0) is None
    assert made.next_start_s(5, 0.0) == pytest.approx(60 / 7)
    assert users((10, 7, "linear"), (10, 7, "step")).next_start_s(6, 0.0) == 10.0
    assert users((10, 7, "linear")).next_start_s(6, 0.0) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.1, 50), st.integers(0, 9), st.sampled_from(["step", "linear"])), min_size=1, max_size=6
    ).filter(lambda stages: any(level for _, level, _ in stages)),
    st.integers(0, 8),
    st.floats(0, 400),
)
def test_a_user_may_begin_when_he_is_told_to(stages: list[tuple[float, int, str]], user: int, t_s: float) -> None:
    made = users(*stages)
    start_s = made.next_start_s(user, t_s)
    total_s = sum(duration_s for duration_s, _, _ in stages)
    if start_s is None:
        return
    assert t_s <= start_s < total_s + 1e-6
    levels = Levels(staged(*({"duration_s": d, "max_concurrency": n, "ramp": r} for d, n, r in stages)))
    assert levels.at(min(start_s + 1e-9, total_s - 1e-9)) >= user + 1 - 1e-6
