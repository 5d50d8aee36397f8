"""Fixtures for tests of a node: a lab that runs, the sample model, and waiting on conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running_lab import Lab, WaitFor
from small_disk import can_mount

# Left out, not skipped, where this user may mount nothing.
collect_ignore = [] if can_mount() else ["test_full_disk.py"]


@pytest.fixture(scope="session")
def wait_for() -> WaitFor:
    """Polls until a condition holds; fails the test when the time is up."""

    def wait(condition: Callable[[], object], within_s: float = 30.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"did not come true within {within_s} s"
            time.sleep(0.05)

    return wait


@pytest.fixture
def lab(process_env: dict[str, str], tmp_path: Path, wait_for: WaitFor) -> Iterator[Lab]:
    """Web server and recorder are up; nothing of it, nor of its agents, is left afterwards."""
    lab = Lab({**process_env, "LAB_URL": ""}, tmp_path, wait_for)
    try:
        lab.start_web()
        lab.start_recorder()
        yield lab
    finally:
        started = [child for process in lab.processes for child in process.descendants()]
        for process in reversed(lab.processes):
            if process.popen.poll() is None:
                process.popen.kill()
                process.popen.wait()
        for child in started:
            if child.is_running():
                child.kill()
