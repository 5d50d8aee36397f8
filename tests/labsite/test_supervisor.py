"""The supervisor, on real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from labsite.processes import adopt_orphans, end_processes, wait_until
from labsite.supervisor import MARK, Child, Supervisor, leftovers

SLEEPER = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
# A child whose own child stays in its session and outlives it.
FORK = f"import subprocess, sys;p = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); print(p.pid, flush=True)"
# A child whose own child leaves its session and outlives it.
DOUBLE_FORK = (
    "import subprocess, sys;"
    f"p = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], start_new_session=True); print(p.pid, flush=True)"
)


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def supervisor(lines: list[str]) -> Iterator[Supervisor]:
    adopt_orphans()
    running = Supervisor(say=lines.append)
    yield running
    running.stop()
    adopt_orphans(False)


def child(tmp_path: Path, code: str, name: str = "worker") -> Child:
    env = {**os.environ, MARK: str(tmp_path)}
    return Child(name, lambda: [sys.executable, "-c", code], env, tmp_path / f"{name}.log")


def tick_until(supervisor: Supervisor, condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        supervisor.tick()
        time.sleep(0.02)


def test_a_child_that_dies_is_started_again_and_a_line_says_so(supervisor, lines, tmp_path):
    worker = child(tmp_path, SLEEPER)
    supervisor.add(worker)
    first = worker.process
    first.kill()
    tick_until(supervisor, lambda: worker.process is not first and worker.is_running())
    assert any("worker was killed by signal 9" in line and "restart in 1 s" in line for line in lines)
    assert "worker restarted" in lines


def test_the_line_shows_the_last_words_and_where_the_log_is(supervisor, lines, tmp_path):
    supervisor.add(child(tmp_path, "raise SystemExit('no such thing')"))
    tick_until(supervisor, lambda: bool(lines))
    assert "ended with status 1: no such thing" in lines[0]
    assert str(tmp_path / "worker.log") in lines[0]


def test_what_a_dead_child_left_running_is_ended_before_the_next_one_starts(supervisor, tmp_path):
    forker = child(tmp_path, FORK, "forker")
    supervisor.add(forker)
    first = forker.process
    tick_until(supervisor, lambda: forker.process is not first)
    left = int(forker.log.read_text().split()[0])
    assert not psutil.pid_exists(left)


def test_the_pause_before_a_restart_grows(supervisor, lines, tmp_path):
    supervisor.add(child(tmp_path, "raise SystemExit(3)"))
    tick_until(supervisor, lambda: any("restart in 2 s" in line for line in lines))
    assert "restart in 1 s" in lines[0]


def test_a_command_that_does_not_exist_is_tried_again(supervisor, lines, tmp_path):
    missing = Child("missing", lambda: ["/no/such/program"], dict(os.environ), tmp_path / "missing.log")
    supervisor.add(missing)
    assert "missing did not start" in lines[0]


def test_stop_ends_children_grandchildren_and_those_that_ignore_sigterm(supervisor, tmp_path, monkeypatch):
    monkeypatch.setattr("labsite.supervisor.GRACE_S", 0.5)
    stubborn, forker = child(tmp_path, STUBBORN, "stubborn"), child(tmp_path, DOUBLE_FORK, "forker")
    supervisor.add(stubborn)
    supervisor.add(forker)
    assert wait_until(lambda: "up" in stubborn.log.read_text(), 10)
    assert wait_until(lambda: forker.log.read_text().strip().isdigit(), 10)
    orphan = psutil.Process(int(forker.log.read_text()))
    forker.process.wait(10)
    supervisor.stop()
    assert not stubborn.is_running()
    assert not psutil.pid_exists(orphan.pid)


def test_stop_spares_what_was_there_before_the_supervisor(tmp_path):
    earlier = subprocess.Popen([sys.executable, "-c", SLEEPER])
    try:
        one = Supervisor(say=print)
        one.add(child(tmp_path, SLEEPER))
        one.stop()
        assert earlier.poll() is None
    finally:
        earlier.kill()
        earlier.wait()


def test_the_exit_status_of_a_process_that_someone_waits_for_is_left_to_him(supervisor, tmp_path):
    waited_for = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    supervisor.waited_for.append(waited_for)
    process = psutil.Process(waited_for.pid)
    tick_until(supervisor, lambda: process.status() == psutil.STATUS_ZOMBIE)
    supervisor.tick()
    assert waited_for.wait(5) == 7


def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    pid_file = tmp_path / "pid"
    code = (
        "import os, sys, pathlib, time;"
        "from labsite.processes import spawn;"
        f"log = pathlib.Path({str(tmp_path / 'log')!r});"
        f"p = spawn([sys.executable, '-c', {SLEEPER!r}], log=log, env=dict(os.environ));"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(p.pid)); time.sleep(600)"
    )
    parent = psutil.Popen([sys.executable, "-c", code])
    assert wait_until(lambda: pid_file.exists() and pid_file.read_text().isdigit(), 10)
    orphan = psutil.Process(int(pid_file.read_text()))
    parent.kill()
    parent.wait(10)
    orphan.wait(10)


def test_leftovers_are_found_by_home_with_their_own_children(tmp_path):
    code = DOUBLE_FORK + f"; {SLEEPER}"
    started = child(tmp_path, code)
    started.start()
    assert wait_until(lambda: started.log.read_text().strip().isdigit(), 10)
    grandchild = int(started.log.read_text())
    found = leftovers(tmp_path)
    assert {process.pid for process in found} == {started.process.pid, grandchild}
    assert leftovers(tmp_path / "another home") == []
    end_processes(found, 5)
    assert leftovers(tmp_path) == []
