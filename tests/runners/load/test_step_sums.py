"""Steps of one interval, reduced to a sample's figures, of one engine and of several."""

from __future__ import annotations

import pytest

from runners.events import Step
from runners.load.step_sums import sum_steps


def step(engine: str | None, running: int, waiting: int, used: int, free: int) -> Step:
    return Step(
        index=1, start_s=0.0, duration_s=0.1, prefill_tokens=5, decode_tokens=running, running=running,
        waiting=waiting, kv_used_blocks=used, kv_cached_blocks=0, kv_free_blocks=free, kv_used_slots=0, engine=engine,
    )  # fmt: skip


def test_one_engines_steps_give_means_and_maxima() -> None:
    sums = sum_steps([step(None, 2, 0, 1, 9), step(None, 4, 6, 3, 7)])
    assert (sums["steps"], sums["prefill_tokens"], sums["decode_tokens"]) == (2, 10, 6)
    assert sums["busy_s"] == pytest.approx(0.2)
    assert (sums["running_mean"], sums["running_max"], sums["waiting_mean"], sums["waiting_max"]) == (3, 4, 3, 6)
    assert sums["kv_used_mean"] == pytest.approx(0.2) and sums["kv_used_max"] == 0.3


def test_several_engines_run_and_wait_together() -> None:
    sums = sum_steps([step("a", 2, 0, 1, 9), step("b", 10, 1, 8, 2), step("a", 4, 6, 3, 7)])
    assert sums["steps"] == 3 and sums["decode_tokens"] == 16
    assert sums["running_mean"] == 3 + 10 and sums["running_max"] == 4 + 10
    assert sums["waiting_mean"] == 3 + 1 and sums["waiting_max"] == 6 + 1
    assert sums["kv_used_mean"] == pytest.approx((0.2 + 0.8) / 2) and sums["kv_used_max"] == 0.8


def test_no_step_gives_no_figure() -> None:
    assert sum_steps([]) == {}
