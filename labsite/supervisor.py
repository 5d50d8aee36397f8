"""Keeps processes running: starts them, restarts those that end with back-off, ends them all.

It knows nothing of what they do. One thread, one loop; every event is one line to `say`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from labsite.processes import StartFailed, end_processes, last_lines, spawn

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 30.0
HEALTHY_AFTER_S = 60.0
# The lab must end within 10 s: these, the kill after them and a fast shutdown of PostgreSQL stay below that.
FIRST_GRACE_S = 4.0
GRACE_S = 1.5
# What marks a process as a child of the lab on a home, its own children included; see `leftovers`.
MARK = "LAB_CHILD_OF"

Say = Callable[[str], None]


class Server(Protocol):
    """An embedded server: it starts and stops itself, we watch it."""

    name: str
    process: psutil.Process | None

    def start(self) -> None: ...
    def is_running(self) -> bool: ...
    def stop(self) -> None: ...


@dataclass
class Child:
    """A process of the lab. `command` is asked at every start, since it may depend on what is in the home by then.

    One that leaves first is ended while the others still run, so that it can tell them.
    """

    name: str
    command: Callable[[], Sequence[str | Path]]
    env: dict[str, str]
    log: Path
    cwd: Path | None = None
    leaves_first: bool = False
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = spawn(self.command(), log=self.log, env=self.env, cwd=self.cwd)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def how_it_ended(self) -> str:
        code = self.process.returncode if self.process else None
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
        return f"{how}: {last_lines(self.log, 1)[:200]} (see {self.log})"


@dataclass
class _Watch:
    started_at: float = 0.0
    failures: int = 0
    restart_at: float | None = None


@dataclass
class Supervisor:
    """`servers` are started by their owner, before the children; children are started by `add`.

    Children of this process that were there before its supervisor are none of its business.
    """

    say: Say
    servers: Sequence[Server] = ()
    children: list[Child] = field(default_factory=list)
    # Processes that others of us wait for: their exit status is not ours to take.
    waited_for: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _watches: dict[str, _Watch] = field(default_factory=dict)
    _before: frozenset[int] = field(default_factory=lambda: frozenset(one.pid for one in psutil.Process().children()))

    def add(self, child: Child) -> None:
        self.children.append(child)
        self._start(child)

    def tick(self) -> None:
        """Restarts what has ended and is due. To be called several times a second."""
        items: list[Server | Child] = [*self.servers, *self.children]
        for item in items:
            watch = self._watches.setdefault(item.name, _Watch(started_at=time.monotonic()))
            if item.is_running():
                continue
            if watch.restart_at is None:
                how = item.how_it_ended() if isinstance(item, Child) else "ended"
                self._end_rest_of(item)
                self._plan_restart(item.name, watch, how)
            elif time.monotonic() >= watch.restart_at:
                self._start(item)
        self._reap_orphans()

    def stop(self) -> None:
        """Ends every descendant but the servers, then the servers; nothing of ours is left when it returns."""
        for leaves_first, grace_s in ((True, FIRST_GRACE_S), (False, GRACE_S)):
            end_processes(self._running(leaves_first), grace_s)
        end_processes(self._descendants(), 0.5)
        for server in reversed(self.servers):
            server.stop()
        self._reap_orphans()

    def _running(self, leaves_first: bool) -> list[psutil.Process]:
        children = [child for child in self.children if child.leaves_first == leaves_first and child.is_running()]
        return [psutil.Process(child.process.pid) for child in children if child.process]

    def _start(self, item: Server | Child) -> None:
        watch = self._watches.setdefault(item.name, _Watch())
        restarted = watch.restart_at is not None
        watch.started_at, watch.restart_at = time.monotonic(), None
        try:
            item.start()
        except (OSError, StartFailed) as error:
            self._plan_restart(item.name, watch, f"did not start: {error}")
            return
        if restarted:
            self.say(f"{item.name} restarted")

    def _plan_restart(self, name: str, watch: _Watch, how: str) -> None:
        now = time.monotonic()
        watch.failures = 1 if now - watch.started_at > HEALTHY_AFTER_S else watch.failures + 1
        wait_s = min(FIRST_BACKOFF_S * 2 ** (watch.failures - 1), LONGEST_BACKOFF_S)
        watch.restart_at = now + wait_s
        self.say(f"{name} {how}; restart in {wait_s:.0f} s")

    def _end_rest_of(self, item: Server | Child) -> None:
        """What a dead child left running (the control worker's beat, say) must not run beside the next one's."""
        if isinstance(item, Child) and item.process is not None:
            end_processes([one for one in self._descendants() if _session_of(one) == item.process.pid], 0)

    def _descendants(self) -> list[psutil.Process]:
        """All processes below us, those of the servers and of earlier children left out."""
        spared = self._before | {server.process.pid for server in self.servers if server.process}
        found: list[psutil.Process] = []
        for process in psutil.Process().children():
            if process.pid not in spared:
                found += [process, *_children_of(process)]
        return found

    def _reap_orphans(self) -> None:
        """Orphans of our children become ours (we are their subreaper): takes the exit status of the ended."""
        processes = [*self.waited_for, *(child.process for child in self.children if child.process)]
        known = {process.pid for process in processes if process.returncode is None}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in known:
                return
            os.waitpid(ended.si_pid, 0)


def _session_of(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


def _children_of(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def leftovers(home: Path) -> list[psutil.Process]:
    """Processes of an earlier lab on this home that was killed, by the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
