"""runners.execution.watch: CPU time of others is told apart from the lab's own, by mark and by descent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

WATCH = """
import json, sys
from runners.execution.watch import NodeWatch
watch = NodeWatch()
watch.start()
sys.stdin.readline()
print(json.dumps(watch.stop()))
"""
BURN = "import time\nend = time.process_time() + 2.5\nwhile time.process_time() < end: pass"


@pytest.fixture
def watcher() -> Iterator[subprocess.Popen[str]]:
    """A process that watches until it reads a line; its parent, and so we, count as the lab's."""
    with subprocess.Popen(
        [sys.executable, "-c", WATCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def burn_as_an_orphan(mark: str) -> None:
    """Burns 2.5 s of CPU in a process that does not descend from us; returns when it has ended."""
    environment = {key: value for key, value in os.environ.items() if key != "LAB_PROCESS"}
    if mark:
        environment["LAB_PROCESS"] = mark
    read_end, write_end = os.pipe()
    subprocess.run(
        ["sh", "-c", '"$0" -c "$1" &', sys.executable, BURN],
        env=environment, pass_fds=[write_end], check=True,
    )  # fmt: skip
    os.close(write_end)
    with os.fdopen(read_end) as end:
        assert end.read() == ""


def test_a_process_from_elsewhere_is_foreign(watcher: subprocess.Popen[str]) -> None:
    burn_as_an_orphan(mark="")
    evidence = stop(watcher)
    assert evidence["foreign_cpu_share"] * capacity_s(evidence) > 1.0
    assert any(used_s > 1.0 for name, used_s in evidence["foreign_processes"].items() if "python" in name)


@pytest.mark.parametrize("how", ["marked", "descended"])
def test_the_labs_own_processes_are_not(watcher: subprocess.Popen[str], how: str) -> None:
    if how == "marked":
        burn_as_an_orphan(mark="1")
    else:
        subprocess.run([sys.executable, "-c", BURN], check=True)
    evidence = stop(watcher)
    assert evidence["lab_cpu_share"] * capacity_s(evidence) > 1.0


def test_a_watch_that_never_began_says_nothing() -> None:
    from_nothing = "from runners.execution.watch import NodeWatch; print(NodeWatch().stop())"
    done = subprocess.run([sys.executable, "-c", from_nothing], capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"


def stop(watcher: subprocess.Popen[str]) -> dict[str, float | dict[str, float]]:
    out, _ = watcher.communicate("\n", timeout=30)
    evidence = json.loads(out)
    assert 0 <= evidence["foreign_cpu_share"] <= 1 and 0 <= evidence["steal_share"] <= 1
    return evidence


def capacity_s(evidence: dict[str, float]) -> float:
    return evidence["watched_s"] * len(os.sched_getaffinity(0))
