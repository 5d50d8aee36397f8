"""Joins what the client saw with what the engine did: client ticks and engine steps become the run's Samples. Pure.

A step counts in the interval in which it ended. A tick is held back until the engine's steps are known up to its end;
a step that comes later still counts in the next interval, so none is lost and none counts twice.
An engine that tells no steps has gauges instead, read at moments of the interval.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runners.engines.exposition import Gauges
from runners.events import KVBlocks, Sample, Step
from runners.load.step_sums import sum_steps


class SampleMerger:
    """For one run. Times are seconds on the run's clock."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._ticks: deque[dict[str, Any]] = deque()
        self._known_until_s = float("-inf")
        self._kv_blocks: KVBlocks | None = None
        self._gauges: deque[tuple[float, Gauges]] = deque()

    def add_gauges(self, t_s: float, gauges: Gauges | None) -> None:
        """What an engine that tells no steps said of itself at `t_s`; None where it said nothing."""
        self._known_until_s = max(self._known_until_s, t_s)
        if gauges is not None:
            self._gauges.append((t_s, gauges))

    def add_steps(self, steps: list[Step], known_until_s: float, kv_blocks: KVBlocks | None = None) -> None:
        """Steps in order; `known_until_s`: no other can have ended by then; `kv_blocks` as they were about then."""
        self._kv_blocks = kv_blocks
        self._steps.extend(steps)
        self._known_until_s = max(self._known_until_s, known_until_s)

    def add_tick(self, tick: Mapping[str, Any]) -> None:
        """The client's fields of a Sample, in order."""
        self._ticks.append(dict(tick))

    def take(self) -> list[Sample]:
        """The Samples that are complete now."""
        return self._join(lambda tick: bool(tick["t_s"] <= self._known_until_s))

    def finish(self) -> list[Sample]:
        """All that are left, when nothing more will come."""
        return self._join(lambda tick: True)

    def _join(self, ready: Callable[[dict[str, Any]], bool]) -> list[Sample]:
        samples = []
        while self._ticks and ready(self._ticks[0]):
            tick = self._ticks.popleft()
            engine = sum_steps(self._take_steps(tick["t_s"])) or sum_gauges(self._take_gauges(tick["t_s"]))
            samples.append(Sample(**tick, **engine, kv_blocks=self._kv_blocks))
        return samples

    def _take_steps(self, until_s: float) -> list[Step]:
        taken = []
        while self._steps and self._steps[0].start_s + self._steps[0].duration_s <= until_s:
            taken.append(self._steps.popleft())
        return taken

    def _take_gauges(self, until_s: float) -> list[Gauges]:
        taken = []
        while self._gauges and self._gauges[0][0] <= until_s:
            taken.append(self._gauges.popleft()[1])
        return taken


def sum_gauges(said: Sequence[Gauges]) -> dict[str, Any]:
    """The fields of a Sample that an engine's own gauges give, each over those that tell it; the rest stays null."""
    fields: dict[str, Any] = {}
    for name in ("running", "waiting", "kv_used"):
        values = [value for one in said if (value := getattr(one, name)) is not None]
        if values:
            most = max(values)
            fields[f"{name}_mean"] = sum(values) / len(values)
            fields[f"{name}_max"] = most if name == "kv_used" else round(most)
    return fields


def on_run_clock(step: Step, zero_s: float) -> Step:
    """The step with its start on the run's clock; `zero_s` is the host's monotonic time at the run's zero."""
    return step.model_copy(update={"start_s": step.start_s - zero_s})
