"""Who sends in a closed loop, and from when on: always as many users."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConstantUsers:
    """Implements runners.load.planned.Users: `most` users, each free to go on at any time."""

    most: int

    def next_start_s(self, user: int, t_s: float) -> float | None:
        return t_s
