"""Evidence about the node while a run is measured: who else computed on it, whether it was throttled, how warm it was.

A process is the lab's own when it, or one it descends from, was started with LAB_PROCESS=1, or is this run's process
or its parent; all other CPU time on the cores we may use is foreign. Judging the figures is for runners.validity.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from typing import Any

import psutil

from runners import cgroup
from runners.processes import LAB_MARK

SCAN_S = 1.0
NAMED_FOREIGN = 5

ProcessId = tuple[int, float]


class NodeWatch:
    """`start` at the window's begin, `stop` at its end; in between a thread looks at the processes once a second."""

    def __init__(self) -> None:
        self._own: dict[ProcessId, bool] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._evidence: dict[str, Any] | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
            self._thread.start()

    def stop(self) -> dict[str, Any]:
        """The evidence; empty where nothing was watched."""
        if self._thread is None:
            return {}
        self._stopped.set()
        self._thread.join()
        return self._evidence or {}

    def _watch(self) -> None:
        begin_s, throttled, busy = time.monotonic(), cgroup.throttling(), _busy()
        last = self._scan()
        own_s, foreign = 0.0, Counter[str]()
        while not self._stopped.wait(SCAN_S):
            last, own = self._account(last, foreign)
            own_s += own
        last, own = self._account(last, foreign)
        own_s += own
        window_s = time.monotonic() - begin_s
        self._evidence = _evidence(window_s, busy, _busy(), own_s, foreign) | _throttling(
            throttled, cgroup.throttling()
        )

    def _account(
        self, last: dict[ProcessId, tuple[float, str, bool]], foreign: Counter[str]
    ) -> tuple[dict[ProcessId, tuple[float, str, bool]], float]:
        """CPU seconds since the last scan: the lab's own as the second value, others' by name into `foreign`."""
        now = self._scan()
        own_s = 0.0
        for process, (used_s, name, is_own) in now.items():
            grown_s = used_s - (last[process][0] if process in last else 0.0)
            if is_own:
                own_s += grown_s
            elif grown_s > 0:
                foreign[name] += grown_s  # type: ignore[assignment]
        return now, own_s

    def _scan(self) -> dict[ProcessId, tuple[float, str, bool]]:
        """CPU seconds, name and whether it is ours, of every process there is."""
        found: dict[ProcessId, tuple[float, str, bool]] = {}
        for process in psutil.process_iter():
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    key = (process.pid, process.create_time())
                    found[key] = (times.user + times.system, process.name(), self._is_own(process))
            except psutil.Error:  # it ended while we looked
                continue
        return found

    def _is_own(self, process: psutil.Process) -> bool:
        key = (process.pid, process.create_time())
        if key not in self._own:
            self._own[key] = (
                process.pid in (os.getpid(), os.getppid()) or _is_marked(process) or self._has_own_parent(process)
            )
        return self._own[key]

    def _has_own_parent(self, process: psutil.Process) -> bool:
        parent = process.parent()
        return parent is not None and parent.pid > 1 and self._is_own(parent)


def _is_marked(process: psutil.Process) -> bool:
    try:
        return process.environ().get(LAB_MARK) == "1"
    except (psutil.Error, OSError):  # another user's
        return False


def _cores() -> list[int]:
    every = list(range(psutil.cpu_count() or 1))
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every


def _busy() -> tuple[float, float]:
    """(seconds in which the cores we may use worked, seconds that a hypervisor took from them), since boot."""
    every = psutil.cpu_times(percpu=True)
    times = [every[core] for core in _cores() if core < len(every)]
    parts = ("user", "nice", "system", "irq", "softirq")
    busy_s = sum(getattr(one, part, 0.0) for one in times for part in parts)
    return busy_s, sum(getattr(one, "steal", 0.0) for one in times)


def _evidence(
    window_s: float, before: tuple[float, float], after: tuple[float, float], own_s: float, foreign: Counter[str]
) -> dict[str, Any]:
    capacity_s = window_s * len(_cores())
    busy_s, steal_s = after[0] - before[0], after[1] - before[1]
    return {
        "watched_s": window_s,
        "lab_cpu_share": min(own_s / capacity_s, 1.0),
        "foreign_cpu_share": min(max(busy_s - own_s, 0.0) / capacity_s, 1.0),
        "steal_share": steal_s / capacity_s,
        "foreign_processes": {name: round(used_s, 3) for name, used_s in foreign.most_common(NAMED_FOREIGN)},
        "temperatures_c": _temperatures(),
    }


def _throttling(before: dict[str, float] | None, after: dict[str, float] | None) -> dict[str, Any]:
    if before is None or after is None:
        return {"throttled_share": None, "throttled_s": None}
    periods = after["periods"] - before["periods"]
    throttled = after["throttled_periods"] - before["throttled_periods"]
    return {
        "throttled_share": throttled / periods if periods else 0.0,
        "throttled_s": after["throttled_s"] - before["throttled_s"],
    }


def _temperatures() -> dict[str, float]:
    """The warmest reading of each sensor that this system shows."""
    if not hasattr(psutil, "sensors_temperatures"):
        return {}
    return {
        name: max(one.current for one in readings)
        for name, readings in psutil.sensors_temperatures().items()
        if readings
    }
