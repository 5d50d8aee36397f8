"""Sends requests over HTTP, and after each answer what follows it in its session.

When something new begins is for whoever drives the load to say. Counts what was sent, and refused connections: after
enough of them in a row the server is taken for gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from runners.events import RequestRecord
from runners.load.http import Target, send
from runners.load.planned import LoadPlan, PlannedRequest
from runners.load.self_check import SelfCheck
from runners.load.ticks import TickCounter
from runners.load.trace import RequestTrace

GONE_AFTER_REFUSALS = 8


@dataclass(frozen=True, slots=True)
class _Due:
    request: PlannedRequest
    body: bytes
    due_s: float


class Sender:
    """`sent_the_last` is called when nothing more begins and every session has sent its last request."""

    def __init__(
        self,
        target: Target,
        plan: LoadPlan,
        counter: TickCounter,
        check: SelfCheck,
        take_record: Callable[[RequestRecord], None],
        sent_the_last: Callable[[], None],
    ) -> None:
        self._target = target
        self._plan = plan
        self._counter = counter
        self._check = check
        self._take_record = take_record
        self._sent_the_last = sent_the_last
        self._until_s: float | None = None
        self._nothing_begins = False
        self._unfinished: set[str] = set()
        """Sessions that have more to send."""
        self._refusals = 0
        self.num_sent = 0

    @property
    def gone(self) -> bool:
        return self._refusals >= GONE_AFTER_REFUSALS

    def begin_phase(self, until_s: float | None) -> None:
        """What would be sent at `until_s` or later is not."""
        self._until_s, self._nothing_begins = until_s, False

    def stop(self, t_s: float) -> None:
        """What would be sent at `t_s` or later is not, though it was planned."""
        self._until_s, self._nothing_begins = t_s, True

    def no_more_begin(self) -> None:
        """The phase's plan has come to its end."""
        self._nothing_begins = True
        self._tell_if_last()

    async def carry_out(self, request: PlannedRequest, body: bytes, due_s: float) -> bool:
        """Send a request that is due now, then all that follows it until its session is over. False where any of them
        failed."""
        turn, all_ok = [_Due(request, body, due_s)], True
        while turn:
            if len(turn) == 1:
                ended = [await self._step(turn[0])]
            else:
                async with asyncio.TaskGroup() as side_by_side:
                    tasks = [side_by_side.create_task(self._step(due)) for due in turn]
                ended = [task.result() for task in tasks]
            all_ok = all_ok and all(following is not None for following in ended)
            turn = [due for following in ended for due in following or ()]
        return all_ok

    async def _step(self, due: _Due) -> list[_Due] | None:
        """Send one request in time; what follows its answer. None where it failed, or there is no server to send to."""
        request = due.request
        if (wait_s := due.due_s - self._now()) > 0:
            await asyncio.sleep(wait_s)
        if self.gone or (self._until_s is not None and due.due_s >= self._until_s):
            self._leave(request)
            return None
        trace = RequestTrace(request, due.due_s, sent_s=self._now())
        self._count(trace)
        record = await send(self._target, trace, due.body, self._counter.tokens, self._take_record)
        self._refusals = self._refusals + 1 if trace.refused else 0
        if record.status != "ok":
            self._leave(request)
            return None
        return self._following(request, trace)

    def _count(self, trace: RequestTrace) -> None:
        request = trace.request
        self.num_sent += 1
        self._counter.sent()
        self._check.sent(trace.sent_s - trace.scheduled_s)
        if request.session is not None:
            (self._unfinished.discard if request.is_last else self._unfinished.add)(request.session)
            self._tell_if_last()

    def _following(self, request: PlannedRequest, trace: RequestTrace) -> list[_Due]:
        ended_s, following = self._now(), []
        for one in self._plan.after(request.number, trace.output_ids):
            due_s = ended_s + one.delay_s
            if self._until_s is None or due_s < self._until_s:
                following.append(_Due(one.request, self._target.body(one.request), due_s))
            else:
                self._leave(one.request)
        return following

    def _leave(self, request: PlannedRequest) -> None:
        self._plan.abandon(request.number)
        if request.session is not None:
            self._unfinished.discard(request.session)
            self._tell_if_last()

    def _tell_if_last(self) -> None:
        if self._nothing_begins and not self._unfinished:
            self._sent_the_last()

    def _now(self) -> float:
        return self._target.run_time()
