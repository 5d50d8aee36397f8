"""The last steps of the engine, kept in a bounded ring for GET /lab/steps. A reader that falls behind is told
how many it lost."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

from runners.events import Step

FIELDS = tuple(name for name in Step.model_fields if name != "kind")
_INDEX = FIELDS.index("index")


def step_values(step: Step) -> tuple[float, ...]:
    """A step as the tuple that travels; the reverse is `step_fields`."""
    return tuple(getattr(step, name) for name in FIELDS)


def step_fields(values: tuple[float, ...]) -> dict[str, Any]:
    return {"kind": "step", **dict(zip(FIELDS, values, strict=True))}


@dataclass(frozen=True, slots=True)
class StepPage:
    """`next` is the `after` of the next call; `dropped` counts steps that left the ring before they were
    read."""

    steps: tuple[tuple[float, ...], ...]
    next: int
    dropped: int


class StepRing:
    """Steps with ascending, gapless indices; the oldest go first. 20 000 steps are some ten minutes on a
    CPU."""

    def __init__(self, capacity: int = 20_000) -> None:
        self._steps: deque[tuple[float, ...]] = deque(maxlen=capacity)

    def append(self, values: tuple[float, ...]) -> None:
        self._steps.append(values)

    def read(self, after: int, limit: int) -> StepPage:
        """At most `limit` steps whose index is above `after`, in order."""
        if not self._steps:
            return StepPage((), after, 0)
        first = int(self._steps[0][_INDEX])
        skip = max(after + 1 - first, 0)
        page = tuple(islice(self._steps, skip, skip + limit))
        dropped = max(first - after - 1, 0) if page else 0
        return StepPage(page, int(page[-1][_INDEX]) if page else after, dropped)
