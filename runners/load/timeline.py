"""What a virtual run says, put in order: events are held back until no earlier one can come, then told together.

An engine may be asked later than another, or than the client sends, what it did before; so what is told at once is
sorted by time, then by engine, and steps of several engines get their numbers here. A client's own events come after
those of all engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from operator import itemgetter

from runners.events import AnyEvent, Step
from runners.load.system import Ended

Sink = Callable[[Sequence[AnyEvent]], None]
"""Takes events in order."""

_place = itemgetter(0, 1)


class Timeline:
    """For one run. `num_engines` is how many number their steps independently."""

    def __init__(self, sink: Sink, num_engines: int) -> None:
        self._sink = sink
        self._num_engines = num_engines
        self._numbers = count(1)
        self._held: list[tuple[float, int, AnyEvent]] = []
        self._steps: list[Step] = []

    def add(self, t_s: float, event: AnyEvent, engine: int | None = None) -> None:
        """Hold an event of `engine`, or of the client."""
        self._held.append((t_s, self._num_engines if engine is None else engine, event))

    def add_steps(self, ended: Ended) -> None:
        engine = ended.engine
        self._held.extend((t_s, engine, step) for t_s, step in zip(ended.ends_s, ended.steps, strict=True))

    def tell(self, *then: AnyEvent) -> None:
        """Tell what is held, and `then` what comes after all of it."""
        self._held.sort(key=_place)
        events = [event for _, _, event in self._held]
        self._held.clear()
        if self._num_engines > 1:
            events = [self._numbered(event) for event in events]
        self._steps.extend(event for event in events if isinstance(event, Step))
        events.extend(then)
        if events:
            self._sink(events)

    def take_steps(self) -> list[Step]:
        """The steps that were told since the last time."""
        steps, self._steps = self._steps, []
        return steps

    def _numbered(self, event: AnyEvent) -> AnyEvent:
        return event.model_copy(update={"index": next(self._numbers)}) if isinstance(event, Step) else event
