"""What an agent that comes back ends: what its own home left running, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners.agent.home import NodeHome
from runners.agent.run_process import clear_leftovers
from runners.processes import marked_environment
from runners.spool import AttemptKey

KEY = AttemptKey(7, 1)
Leave = Callable[[NodeHome], subprocess.Popen[bytes]]


@pytest.fixture
def leave() -> Iterator[Leave]:
    """A process of attempt KEY as a dead agent leaves it, with its spool."""
    started: list[subprocess.Popen[bytes]] = []

    def start(home: NodeHome) -> subprocess.Popen[bytes]:
        home.spool(KEY).touch()
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        started.append(subprocess.Popen(command, env=marked_environment(home.mark(KEY))))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_an_agent_ends_what_its_home_left_and_no_run_of_that_number_of_another_lab(
    tmp_path: Path, leave: Leave
) -> None:
    ours, theirs = NodeHome(tmp_path / "ours"), NodeHome(tmp_path / "theirs")
    left, foreign = leave(ours), leave(theirs)
    assert clear_leftovers(ours) == [KEY]
    assert left.wait(5) != 0
    assert foreign.poll() is None
