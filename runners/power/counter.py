"""Mean power from a counter of energy that wraps around."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class EnergyCounter:
    """`read_j` gives joules since some beginning, which start again from 0 past `range_j` (None: never)."""

    def __init__(
        self, read_j: Callable[[], float], range_j: float | None = None, now: Callable[[], float] | None = None
    ) -> None:
        self._read_j = read_j
        self._range_j = range_j
        self._now = now or monotonic
        self._last: tuple[float, float] | None = None

    def watts(self) -> float | None:
        """The mean since the last call; None on the first, or where no time has passed. Raises what `read_j` does."""
        t_s, joules = self._now(), self._read_j()
        before, self._last = self._last, (t_s, joules)
        if before is None or t_s <= before[0]:
            return None
        grown = joules - before[1]
        if grown < 0:
            if self._range_j is None:
                return None  # the counter was reset
            grown += self._range_j
        return grown / (t_s - before[0])
