"""The engines of one run on one virtual clock: who gets a request, who passes it on to whom, what ends when."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from runners.events import KVBlocks
from runners.load.system import Clock, Ended
from runners.modelled.fleet_engine import TimedEngine
from runners.runtime.engine import Engine
from runners.runtime.sequence import SamplingParams


class Fleet:
    """Implements runners.load.system.System.

    A request that is sent is read first, which takes `intake_s`, one after another; its engine is chosen when it has
    been read.
    """

    def __init__(self, clock: Clock, engines: Sequence[TimedEngine], intake_s: float = 0.0) -> None:
        self.clock = clock
        self._engines = tuple(engines)
        self._intake_s = intake_s
        self._reading: deque[tuple[float, partial[None]]] = deque()

    @property
    def num_engines(self) -> int:
        return len(self._engines)

    @property
    def next_event_s(self) -> float | None:
        times = [t_s for engine in self._engines if (t_s := engine.next_event_s) is not None]
        times += [self._reading[0][0]] if self._reading else []
        return min(times, default=None)

    def add(self, request_id: str, prompt_ids: tuple[int, ...], params: SamplingParams) -> None:
        engine = self._engines[0].engine
        if not self._intake_s:
            engine.add(request_id, prompt_ids, params)
            return
        engine.check(request_id, prompt_ids, params)
        read_s = max(self._reading[-1][0] if self._reading else 0.0, self.clock.now()) + self._intake_s
        self._reading.append((read_s, partial(engine.add, request_id, prompt_ids, params)))

    def start(self, until_s: float) -> None:
        for engine in self._engines:
            engine.start(until_s)

    def advance(self, t_s: float) -> Sequence[Ended]:
        ended = [done for engine in self._engines if (done := engine.advance(t_s)) is not None]
        while self._reading and self._reading[0][0] <= t_s:
            self._reading.popleft()[1]()
        return ended

    def look(self, t_s: float) -> Sequence[Ended]:
        return [ended for engine in self._engines if (ended := engine.look(t_s)) is not None]

    def kv_blocks(self) -> KVBlocks:
        return self._engines[0].engine.kv_blocks()


def one_engine(engine: Engine, clock: Clock, intake_s: float = 0.0) -> Fleet:
    """A system that is this engine; `clock` must be the one that times it."""
    return Fleet(clock, [TimedEngine(0, engine)], intake_s)
