"""Who sends in a closed loop, and from when on."""

from __future__ import annotations

from dataclasses import dataclass

from runners.load.stages import Levels


@dataclass(frozen=True, slots=True)
class ConstantUsers:
    """Implements runners.load.planned.Users: `most` users, each free to go on at any time."""

    most: int

    def next_start_s(self, user: int, t_s: float) -> float | None:
        return t_s


class StagedUsers:
    """Implements runners.load.planned.Users: user i may begin something while the level is at least i + 1. What he has
    begun when it falls he still ends."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        self.most = int(levels.highest)

    def next_start_s(self, user: int, t_s: float) -> float | None:
        return self._levels.next_time(user + 1.0, t_s)
