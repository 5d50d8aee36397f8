"""Processes of a node: how they are marked, how they end with their parent, how a whole group is ended.

Every process of a lab carries LAB_PROCESS=1 in the environment it was started with, and every process of an attempt
LAB_ATTEMPT=<the node's spool folder>/<run>-<attempt> too: an agent that comes back after a kill -9 finds what is left
by that mark alone.
A child is tied to its parent twice: a pipe that the parent holds open, and on Linux the kernel's parent-death signal.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping

import psutil

LAB_MARK = "LAB_PROCESS"
ATTEMPT_MARK = "LAB_ATTEMPT"
PR_SET_PDEATHSIG = 1
POLL_S = 0.02


def marked_environment(attempt: str | None = None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with the lab's marks, for a child."""
    environment = {**os.environ, LAB_MARK: "1", **(extra or {})}
    if attempt is not None:
        environment[ATTEMPT_MARK] = attempt
    return environment


def end_group_with(guard_fd: int) -> None:
    """Makes this process's whole group end at once when the other end of the pipe `guard_fd` closes.

    For a leader of a group of its own. The pipe's other end is held by the parent, so its death closes it, however
    it dies. SIGKILL, as nobody is left who could wait for a tidy end.
    """
    if os.getpgrp() != os.getpid():
        raise RuntimeError("a guarded process must lead its own group, or others would end with it")
    # Not SIGKILL: that could end this process before it has ended the others.
    die_with_parent(signal.SIGTERM)

    def watch() -> None:
        while os.read(guard_fd, 4096):
            continue
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="guard", daemon=True).start()


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Asks the kernel to signal this process when the thread that started it ends (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)


def group_is_alive(pgid: int) -> bool:
    """Whether any process of the group is left; one that has ended but was not waited for counts as gone."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return any(_in_group(process, pgid) for process in psutil.process_iter())


def signal_group(pgid: int, signum: int) -> None:
    """Sends the signal to every process of the group; no matter if none is left."""
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return


def end_rest_of_group(wait_s: float) -> bool:
    """Kills whatever a dead child left in the group that this process leads. True once none is left; a process that
    leads no group of its own has no say over others, and changes nothing."""
    if os.getpgrp() != os.getpid():
        return True
    deadline = time.monotonic() + wait_s
    while rest := [one for one in psutil.process_iter() if one.pid != os.getpid() and _in_group(one, os.getpid())]:
        if time.monotonic() > deadline:
            return False
        for process in rest:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        time.sleep(POLL_S)
    return True


def marked_processes(name: str, value: str) -> list[psutil.Process]:
    """Living processes that were started with `name=value` in their environment (of those that we may look at)."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(name) == value and is_running(process):
                found.append(process)
        except psutil.Error:  # it ended meanwhile, or is another user's
            continue
    return found


def is_running(process: psutil.Process) -> bool:
    """Whether it still computes: a zombie only waits for its parent."""
    try:
        return bool(process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return False


def kill_marked(attempt: str, wait_s: float) -> bool:
    """Kills every process marked with the attempt, and those they start meanwhile. True once none is left."""
    deadline = time.monotonic() + wait_s
    while left := marked_processes(ATTEMPT_MARK, attempt):
        if time.monotonic() > deadline:
            return False
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        time.sleep(POLL_S)
    return True


def _in_group(process: psutil.Process, pgid: int) -> bool:
    try:
        return os.getpgid(process.pid) == pgid and is_running(process)
    except (ProcessLookupError, psutil.Error):
        return False
