"""One engine in virtual time: the step it is in, and when that ends.

A step changes the engine when it begins and tells what it gave when it ends. The clock is the system's; nothing here
moves it.
"""

from __future__ import annotations

from runners.load.system import Ended
from runners.runtime.engine import Engine
from runners.runtime.outputs import StepOutput


class TimedEngine:
    """An engine and what it is in the middle of. `number` is its place in the system."""

    def __init__(self, number: int, engine: Engine) -> None:
        self.number = number
        self.engine = engine
        self._current: StepOutput | None = None
        self._end_s = 0.0

    @property
    def next_event_s(self) -> float | None:
        return None if self._current is None else self._end_s

    def start(self, until_s: float) -> None:
        """Begin a step, if none is going on and there is work."""
        if self._current is not None or not self.engine.has_work:
            return
        self._current = self.engine.step()
        assert self._current is not None, "an engine with work steps"
        self._end_s = self._current.step.start_s + self._current.step.duration_s

    def advance(self, t_s: float) -> Ended | None:
        """What came to its end by `t_s`."""
        current = self._current
        if current is None or self._end_s > t_s:
            return None
        self._current = None
        return ended_step(self.number, current, self._end_s)

    def look(self, t_s: float) -> Ended | None:
        """Steps that ended before `t_s`, within what comes to its end later, and were not told yet."""
        return None


def ended_step(number: int, output: StepOutput, end_s: float) -> Ended:
    tokens: dict[str, int] = {}
    finished = []
    for token in output.tokens:
        tokens[token.request_id] = tokens.get(token.request_id, 0) + 1
        if token.finish_reason is not None:
            finished.append(token)
    return Ended(number, (output.step,), (end_s,), tokens, finished)
