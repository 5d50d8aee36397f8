"""Reads a meter over and over beside a run, from a thread of its own.

A counter's reading is the mean since the one before, so it stands at the middle of that time. What is kept of a day is
a few megabytes.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

from runners.power.energy import PowerSample, energy_over
from runners.power.meter import Meter

INTERVAL_S = 0.25
COUNTERS = ("rapl", "nvml")


class PowerSampler:
    """`start` before the window, `stop` after it; times are the monotonic clock's."""

    def __init__(
        self, meter: Meter, *, interval_s: float = INTERVAL_S, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._meter = meter
        self._interval_s = interval_s
        self._now = now
        self._times, self._watts = array("d"), array("d")
        self._last_s: float | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="power", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Takes a last reading, so that the samples reach past the window."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._thread.join()

    def take(self) -> None:
        """One reading now."""
        watts, now_s = self._meter.read(), self._now()
        if watts is not None:
            middle = self._meter.source in COUNTERS and self._last_s is not None
            self._times.append((now_s + self._last_s) / 2 if middle and self._last_s is not None else now_s)
            self._watts.append(watts)
        self._last_s = now_s

    def mean(self, start_s: float, end_s: float) -> float | None:
        """Mean watts of the samples in a time, None without one."""
        found = [w for t, w in zip(self._times[-64:], self._watts[-64:], strict=False) if start_s < t <= end_s]
        return sum(found) / len(found) if found else None

    def facts(self, start_s: float | None, end_s: float | None) -> dict[str, Any]:
        """What a report says of the window's power; no energy where the window or the samples are missing."""
        samples = list(map(PowerSample, self._times, self._watts))
        energy = None if start_s is None or end_s is None else energy_over(samples, start_s, end_s)
        told: dict[str, float | None] = {"energy_j": None, "largest_gap_s": None, "samples": len(samples)}
        if energy is not None:
            told = {"energy_j": energy.joules, "largest_gap_s": energy.largest_gap_s, "samples": energy.samples}
        return {"source": self._meter.source, "covers": self._meter.covers, **told}

    def _sample(self) -> None:
        self.take()
        while not self._stopped.wait(self._interval_s):
            self.take()
        self.take()
