"""Where a run's beginning ends, on series whose beginning is known."""

from __future__ import annotations

import numpy as np
import pytest

from runners.events import RequestRecord
from runners.transient import BATCH, LEAST_EVENTS, find_transient, mser5


def record(index: int, sent_s: float, token_times_s: list[float]) -> RequestRecord:
    return RequestRecord(
        index=index, request_id=f"r{index}", phase="measured", scheduled_s=sent_s, sent_s=sent_s, status="ok",
        token_times_s=token_times_s, token_counts=[1] * len(token_times_s), finished_s=token_times_s[-1],
    )  # fmt: skip


def test_a_series_is_cut_where_its_level_is_reached() -> None:
    rng = np.random.default_rng(1)
    steady = 100 + rng.standard_normal(200)
    assert mser5(np.concatenate([np.linspace(0, 100, 40), steady[:160]])) in range(30, 51)
    assert mser5(np.full(200, 7.0)) == 0


def test_of_steady_series_little_is_cut() -> None:
    rng = np.random.default_rng(2)
    cuts = [mser5(100 + rng.standard_normal(200)) for _ in range(200)]
    found = [200 if cut is None else cut for cut in cuts]
    assert np.median(found) <= 20 and np.mean(np.array(found) > 100) < 0.1


def test_a_series_that_never_settles_has_no_steady_part() -> None:
    assert mser5(np.linspace(0, 100, 200)) is None


def test_a_run_that_fills_up_is_steady_from_when_it_is_full() -> None:
    # One more stream every second for 20 s, each with 10 tokens a second until 100 s.
    records = [
        record(user, 5.0 + user, [5.0 + user + k / 10 for k in range(1, 10 * (95 - user))]) for user in range(20)
    ]
    records.append(record(20, 100.0, [100.5]))
    found = find_transient(records, (5.0, 130.0))
    assert found is not None and found.ends_s == pytest.approx(19.0, abs=3.0)
    assert found.events == sum(len(one.token_times_s) for one in records) - 1


def test_few_tokens_and_an_instant_of_sending_tell_nothing() -> None:
    few = [record(0, 0.0, [k / 10 for k in range(1, 90)]), record(1, 9.0, [9.5])]
    assert sum(len(one.token_times_s) for one in few) < LEAST_EVENTS
    assert find_transient(few, (0.0, 10.0)) is None
    at_once = [record(index, 0.0, [k / 100 for k in range(1, 400)]) for index in range(BATCH)]
    assert find_transient(at_once, (0.0, 10.0)) is None
    assert find_transient([], (0.0, 10.0)) is None
