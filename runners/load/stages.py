"""Stages of load as a level over time: requests per second, or users, in straight pieces.

Times are seconds since the measured phase began. Within a piece the level goes evenly from its first to its last
value; a step between two pieces is at the later one's beginning.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt

import numpy as np

from runners.load.arrivals import gaps
from runners.spec import StagedArrival


@dataclass(frozen=True, slots=True)
class Piece:
    """One stage in time: its level at its beginning and at its end."""

    start_s: float
    end_s: float
    first: float
    last: float

    @property
    def lasts_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def area(self) -> float:
        """The level's integral: of a rate, the requests."""
        return (self.first + self.last) / 2 * self.lasts_s

    def level(self, t_s: float) -> float:
        return self.first + (self.last - self.first) * (t_s - self.start_s) / self.lasts_s

    def reaches(self, level: float) -> float | None:
        """When the level is at least so high for the first time; None where it never is. What it comes to at its very
        end is for the next piece to hold."""
        if self.first >= level:
            return self.start_s
        if self.last <= level:
            return None
        return self.start_s + self.lasts_s * (level - self.first) / (self.last - self.first)

    def time_of_area(self, area: float) -> float:
        """When the integral since the piece's beginning has come to `area`, which is at most all of it."""
        slope = (self.last - self.first) / self.lasts_s
        # The root of first·t + slope·t²/2 = area in the form that holds for a slope of 0, too.
        root = sqrt(max(self.first**2 + 2 * slope * area, 0.0))
        return self.start_s + min(2 * area / (self.first + root), self.lasts_s) if area else self.start_s


class Levels:
    """The pieces of all stages, one after another."""

    def __init__(self, arrival: StagedArrival) -> None:
        ends = list(accumulate(stage.duration_s for stage in arrival.stages))
        starts = [0.0, *ends[:-1]]
        befores = [0.0, *(stage.level for stage in arrival.stages[:-1])]
        self.pieces = tuple(
            Piece(start_s, end_s, before if stage.ramp == "linear" else stage.level, stage.level)
            for stage, start_s, end_s, before in zip(arrival.stages, starts, ends, befores, strict=True)
        )
        self._starts = starts
        self.highest = arrival.highest

    @property
    def end_s(self) -> float:
        return self.pieces[-1].end_s

    def at(self, t_s: float) -> float:
        """The level at a time from 0 on; 0 from the end on."""
        return self.pieces[self._place(t_s)].level(t_s) if t_s < self.end_s else 0.0

    def next_time(self, level: float, t_s: float) -> float | None:
        """From `t_s` on, when the level is at least so high; None where it never is again."""
        if t_s >= self.end_s:
            return None
        if self.at(t_s) >= level:
            return t_s
        for piece in self.pieces[self._place(t_s) :]:
            reached_s = piece.reaches(level)
            # A piece that falls reaches it at its beginning, which may be past. One that rises may, by the rounding
            # of floats, have reached it just before.
            if reached_s is not None and (reached_s >= t_s or piece.last >= level):
                return max(reached_s, t_s)
        return None

    def _place(self, t_s: float) -> int:
        return bisect_right(self._starts, t_s) - 1


def staged_arrivals(arrival: StagedArrival, rng: np.random.Generator) -> Iterator[float]:
    """Rising times until the last stage ends. Arrivals of rate 1 and the burstiness asked for, on a time that runs as
    fast as the rate says: with `burstiness` 1 a Poisson process of changing rate."""
    passed = 0.0
    unit = gaps(1.0, arrival.burstiness, rng)
    due = next(unit)
    for piece in Levels(arrival).pieces:
        while due - passed <= piece.area and piece.area:
            yield piece.time_of_area(due - passed)
            due += next(unit)
        passed += piece.area
