"""What a server does outside of steps, on a virtual clock: it reads requests one at a time before its engine sees them.

Requests that are sent at one moment reach the engine one after another, so that an engine without work begins with the
first of them, and the others wait for its step. What happens after a step (a token's way to the client) is counted with
the reading. The client is still an ideal one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from runners.events import KVBlocks, RequestRecord
from runners.runtime.engine import Engine, StepOutput
from runners.runtime.sequence import SamplingParams

UNDISTURBED = 0.05
"""Quantile of times from sending to queueing that no step in progress lengthens."""


class Clock(Protocol):
    def now(self) -> float: ...
    def advance_to(self, t_s: float) -> None: ...


class FrontedEngine:
    """An engine behind a front that takes `intake_s` for each request. To a load it is an engine."""

    def __init__(self, engine: Engine, clock: Clock, intake_s: float) -> None:
        self._engine = engine
        self._clock = clock
        self._intake_s = intake_s
        self._free_s = 0.0
        self._reading: deque[tuple[float, tuple[Any, ...]]] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self._reading) or self._engine.has_work

    def add(self, request_id: str, prompt_ids: tuple[int, ...], params: SamplingParams) -> None:
        """Raises RequestRejected at once, as the engine would."""
        self._engine.check(request_id, prompt_ids, params)
        self._free_s = max(self._free_s, self._clock.now()) + self._intake_s
        self._reading.append((self._free_s, (request_id, prompt_ids, params)))

    def step(self) -> StepOutput | None:
        """The engine's next step, over what has been read by now; None where there was nothing yet but to wait."""
        if not self._engine.has_work and self._reading:
            self._clock.advance_to(self._reading[0][0])
        while self._reading and self._reading[0][0] <= self._clock.now():
            self._engine.add(*self._reading.popleft()[1])
        return self._engine.step()

    def kv_blocks(self) -> KVBlocks:
        return self._engine.kv_blocks()


def intake_of(records: Sequence[RequestRecord]) -> float:
    """Seconds of a request outside of steps, of a measured run: from its sending until it is queued, where no step held
    that up, and from the end of its prefill until its first token arrives. 0 without a request that tells."""
    before = [r.queued_s - r.sent_s for r in records if r.queued_s is not None]
    after = [
        r.first_token_s - r.prefill_done_s
        for r in records
        if r.first_token_s is not None and r.prefill_done_s is not None
    ]
    if not before or not after:
        return 0.0
    return max(float(np.quantile(before, UNDISTURBED) + np.median(after)), 0.0)
