"""Whether the load generator was itself the limit: how late its event loop and its sends were, and its CPU share.

A run in which it was says nothing of the server; the thresholds are here, the verdict goes with the figures.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from typing import Any

import numpy as np

from runners.validity import THRESHOLDS

PROBE_S = 0.05
LATE_S = 0.05
MAX_P99_LAG_S = THRESHOLDS["client_bound"]
MAX_LATE_SHARE = 0.01
MAX_CPU_SHARE = 0.9


class SelfCheck:
    """Figures of the measured window: `start` begins it, `stop` ends it, `probe` runs beside the load."""

    def __init__(self) -> None:
        self._lags_s = array("d")
        self._lateness_s = array("d")
        self._watching = False
        self._wall_s = 0.0
        self._cpu_s = 0.0

    async def probe(self) -> None:
        """Sleeps again and again, and notes by how much each sleep overran. Runs until cancelled."""
        while True:
            asked_s = time.monotonic()
            await asyncio.sleep(PROBE_S)
            if self._watching:
                self._lags_s.append(max(time.monotonic() - asked_s - PROBE_S, 0.0))

    def start(self) -> None:
        self._watching = True
        self._wall_s, self._cpu_s = time.monotonic(), time.process_time()

    def sent(self, lateness_s: float) -> None:
        """A request left `lateness_s` after its plan wanted it to."""
        if self._watching:
            self._lateness_s.append(lateness_s)

    def stop(self) -> None:
        if self._watching:
            self._watching = False
            self._wall_s = time.monotonic() - self._wall_s
            self._cpu_s = time.process_time() - self._cpu_s

    def figures(self) -> dict[str, Any]:
        """Null where nothing was observed; `limited_by` names the figures that passed their threshold."""
        late_share = float(np.mean(np.asarray(self._lateness_s) > LATE_S)) if self._lateness_s else None
        cpu_share = self._cpu_s / self._wall_s if self._wall_s > 0 else None
        figures = {
            "max_lag_s": _quantile(self._lags_s, 1.0),
            "p99_lag_s": _quantile(self._lags_s, 0.99),
            "max_late_s": _quantile(self._lateness_s, 1.0),
            "late_share": late_share,
            "late_threshold_s": LATE_S,
            "cpu_share": cpu_share,
        }
        limits = {"p99_lag_s": MAX_P99_LAG_S, "late_share": MAX_LATE_SHARE, "cpu_share": MAX_CPU_SHARE}
        limited_by = [name for name, most in limits.items() if (figures[name] or 0.0) > most]
        return {**figures, "was_limit": bool(limited_by), "limited_by": limited_by}


def _quantile(values: array[float], q: float) -> float | None:
    return float(np.quantile(values, q)) if values else None
