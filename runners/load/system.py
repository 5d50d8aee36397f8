"""What the virtual load drives: one engine or many in virtual time, as seen from outside.

Whoever implements it moves no clock. The driver moves it, to the next thing that happens anywhere, and asks what ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from runners.events import KVBlocks, Step
from runners.runtime.outputs import TokenOutput
from runners.runtime.sequence import SamplingParams


class Clock(Protocol):
    def now(self) -> float: ...
    def advance_to(self, t_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """Steps of one engine that have ended, in order: an ordinary one, or several with the same batch.

    `ends_s[i]` is when `steps[i]` ended; each step gave each request of `tokens` so many tokens. `finished` are the
    last tokens, with their timing, of requests that ended with the last step. `before_s` is when all of them had their
    last tokens before, where that was one moment. `engine` is the engine's place in the system, and orders what ended
    at the same moment in several.
    """

    engine: int
    steps: Sequence[Step]
    ends_s: Sequence[float]
    tokens: Mapping[str, int]
    finished: Sequence[TokenOutput] = ()
    before_s: float | None = None


class System(Protocol):
    """In this order at one moment: `advance`, then all that `add` brings, then `start`."""

    @property
    def clock(self) -> Clock: ...

    @property
    def num_engines(self) -> int: ...

    @property
    def next_event_s(self) -> float | None:
        """When something in it ends next; None when nothing goes on."""

    def add(self, request_id: str, prompt_ids: tuple[int, ...], params: SamplingParams, priority: int = 0) -> None:
        """Take a request that is sent now; a lower `priority` goes sooner, where scheduling heeds it. Raises
        RequestRejected if it could never run."""

    def output_ids(self, params: SamplingParams, num_tokens: int) -> tuple[int, ...] | None:
        """The first `num_tokens` of the output that such a request gets; None where that can't be told."""

    def start(self, until_s: float) -> None:
        """Let every engine that has work and is in no step begin one, now. Those that can take several steps at once
        take those that begin before `until_s`, until when nothing is known to be sent."""

    def advance(self, t_s: float) -> Sequence[Ended]:
        """What comes to its end by `t_s`, where the clock stands. What begins because of it does so now."""

    def look(self, t_s: float) -> Sequence[Ended]:
        """All steps that ended before `t_s`, where nothing comes to its end earlier, and were not told yet. Afterwards
        blocks are as the step that goes on at `t_s` leaves them."""

    def kv_blocks(self) -> KVBlocks: ...
