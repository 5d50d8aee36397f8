"""The load generator knows when it was itself the limit."""

from __future__ import annotations

import asyncio
import time

from runners.load.self_check import LATE_S, MAX_P99_LAG_S, SelfCheck


async def run_for(check: SelfCheck, duration_s: float, hog_s: float) -> None:
    """Let the probe run that long, beside work that holds the event loop `hog_s` at a time."""
    probe = asyncio.create_task(check.probe())
    check.start()
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        hold_until_s = time.monotonic() + hog_s
        while time.monotonic() < hold_until_s:
            continue
        await asyncio.sleep(0)
    check.stop()
    probe.cancel()
    await asyncio.wait({probe})


async def test_a_loop_that_is_held_up_says_so() -> None:
    check = SelfCheck()
    await run_for(check, 0.6, hog_s=3 * MAX_P99_LAG_S)
    figures = check.figures()
    assert figures["was_limit"] is True and "p99_lag_s" in figures["limited_by"]
    assert figures["max_lag_s"] >= figures["p99_lag_s"] > MAX_P99_LAG_S


def test_sends_that_left_late_are_counted_and_named() -> None:
    check = SelfCheck()
    check.start()
    for lateness_s in [0.0] * 97 + [2 * LATE_S] * 3:
        check.sent(lateness_s)
    check.stop()
    figures = check.figures()
    assert figures["late_share"] == 0.03 and figures["max_late_s"] == 2 * LATE_S
    assert "late_share" in figures["limited_by"]


def test_what_was_not_observed_is_null_and_no_limit() -> None:
    figures = SelfCheck().figures()
    assert {figures[name] for name in ("max_lag_s", "p99_lag_s", "max_late_s", "late_share", "cpu_share")} == {None}
    assert figures["was_limit"] is False


def test_only_the_measured_window_counts() -> None:
    check = SelfCheck()
    check.sent(9.0)
    check.start()
    check.sent(0.0)
    check.stop()
    check.sent(9.0)
    assert check.figures()["max_late_s"] == 0.0
