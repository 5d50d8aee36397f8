"""A clock that moves only when it is told to: the time of a modelled node."""

from __future__ import annotations


class VirtualClock:
    """Seconds since its own zero; never goes back."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    def advance(self, duration_s: float) -> None:
        if duration_s < 0:
            raise ValueError(f"duration_s: {duration_s} is not allowed; allowed: at least 0")
        self._now_s += duration_s

    def advance_to(self, t_s: float) -> None:
        """Moves forward to `t_s`, or nowhere when that is past."""
        self._now_s = max(self._now_s, t_s)
