"""Waiting on a condition, for tests of processes: polls until it holds or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import pytest


class WaitFor(Protocol):
    def __call__(self, condition: Callable[[], object], within_s: float = 20.0) -> None: ...


@pytest.fixture(scope="session")
def wait_for() -> WaitFor:
    def wait(condition: Callable[[], object], within_s: float = 20.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"did not come true within {within_s} s"
            time.sleep(0.02)

    return wait
