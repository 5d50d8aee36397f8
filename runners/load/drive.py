"""Sends a plan's requests in time: warm-up until all of it has ended, then the measured window, then the drain.

A closed loop keeps its users busy. An open loop sends on schedule, whatever has come back. A server
that no longer takes connections ends the load early, with what happened until then recorded. So does, where that is
asked for, an open loop's over-saturation: it sends no more, and the window ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from runners.events import RequestRecord
from runners.load.http import Target
from runners.load.planned import LoadPlan, Phase, PlannedRequest, Users
from runners.load.saturation import REASON, SaturationWatch
from runners.load.self_check import SelfCheck
from runners.load.sending import Sender
from runners.load.ticks import TICK_S, TickCounter

PAUSE_AFTER_ERROR_S = 0.25

Put = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class LoadResult:
    """The window that counts, on the run's clock, and how the load generator itself fared.

    The window begins when the warm-up has wholly ended and the first measured request may go. With `num_requests`
    it ends when the last of them has ended; with `duration_s`, that long after its begin; where the load stopped
    early, then: `client` has the reason as `stopped_early`.
    """

    window_start_s: float | None = None
    window_end_s: float | None = None
    client: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"window_start_s": self.window_start_s, "window_end_s": self.window_end_s, "client": self.client}


async def drive(target: Target, plan: LoadPlan, put: Put, *, stop_when_saturated: bool = False) -> LoadResult:
    """Runs the whole load. When cancelled, it records that and returns what there is."""
    return await Driver(target, plan, put, SaturationWatch() if stop_when_saturated else None).run()


class Driver:
    """One load from time zero to its end."""

    def __init__(self, target: Target, plan: LoadPlan, put: Put, saturation: SaturationWatch | None = None) -> None:
        self._target = target
        self._plan = plan
        self._put = put
        self._counter = TickCounter()
        self._check = SelfCheck()
        self._result = LoadResult()
        self._draining = False
        self._saturation = saturation
        self._is_open = False
        self._stopped: dict[str, Any] = {}
        self._sender = Sender(target, plan, self._counter, self._check, self._take_record, self._sent_the_last)

    async def run(self) -> LoadResult:
        beside = [asyncio.create_task(self._tick_on_time()), asyncio.create_task(self._check.probe())]
        cancelled = False
        try:
            await self._warm_up()
            await self._measure()
        except asyncio.CancelledError:
            cancelled = True
        finally:
            await _cancel(beside)
        self._end_window(min(self._now(), self._result.window_end_s or self._now()))
        self._tick()
        self._say("done")
        self._result.client = {
            **self._check.figures(),
            "sent": self._sender.num_sent,
            "server_gone": self._sender.gone,
            "cancelled": cancelled,
            **self._stopped,
        }
        return self._result

    async def _warm_up(self) -> None:
        self._say("warming_up", 0.0)
        await self._send_phase("warmup", until_s=None)
        self._tick()

    async def _measure(self) -> None:
        if self._sender.gone:
            return
        self._counter.phase = "measured"
        start_s = self._result.window_start_s = self._now()
        self._say("measuring", start_s)
        self._check.start()
        duration_s = self._plan.lasts_s
        if duration_s is None:
            await self._send_phase("measured", until_s=None)
            return
        end_s = self._result.window_end_s = start_s + duration_s
        timer = asyncio.get_running_loop().call_later(duration_s, self._end_on_time, end_s)
        try:
            await self._send_phase("measured", end_s)
        finally:
            timer.cancel()

    def _end_on_time(self, t_s: float) -> None:
        if not self._stopped:
            self._end_window(t_s)

    def _stop_early(self, t_s: float, figures: dict[str, Any]) -> None:
        """Nothing more is sent; what is in flight goes on to its end."""
        self._stopped = {"stopped_early": REASON, "saturation": figures}
        self._sender.stop(t_s)
        self._end_window(t_s)

    def _end_window(self, t_s: float) -> None:
        """Once, if a window began: nothing that comes later counts. Called by the timer or when all has ended."""
        if self._result.window_start_s is not None:
            self._result.window_end_s = t_s
            self._check.stop()
            self._begin_drain(t_s)

    def _begin_drain(self, t_s: float) -> None:
        if not self._draining:
            self._draining = True
            self._say("draining", t_s)

    async def _send_phase(self, phase: Phase, until_s: float | None) -> None:
        """Send the phase's requests until there are no more or the time is up; returns when all have ended."""
        requests, arrivals = self._plan.requests(phase), self._plan.arrivals(phase)
        self._sender.begin_phase(until_s)
        self._is_open = arrivals is not None
        if arrivals is None:
            await self._closed_loop(requests, self._plan.users(phase), until_s)
        else:
            await self._open_loop(requests, arrivals, until_s)

    async def _closed_loop(self, requests: Iterator[PlannedRequest], users: Users, until_s: float | None) -> None:
        start_s = self._now()
        async with asyncio.TaskGroup() as group:
            for user in range(users.most):
                group.create_task(self._be_user(user, users, requests, start_s, until_s))

    async def _be_user(
        self, user: int, users: Users, requests: Iterator[PlannedRequest], start_s: float, until_s: float | None
    ) -> None:
        while (due_s := users.next_start_s(user, self._now() - start_s)) is not None:
            due_s += start_s
            if not _is_before(due_s, until_s):
                return
            if due_s > self._now():
                await self._sleep_until(due_s)
            if self._sender.gone:
                return
            request = next(requests, None)
            if request is None:
                self._sender.no_more_begin()
                return
            if not await self._sender.carry_out(request, self._target.body(request), due_s):
                # A server that refuses at once must not be met with a storm.
                await asyncio.sleep(PAUSE_AFTER_ERROR_S)

    async def _open_loop(
        self, requests: Iterator[PlannedRequest], arrivals: Iterator[float], until_s: float | None
    ) -> None:
        start_s = self._now()
        async with asyncio.TaskGroup() as in_flight:
            for offset_s, request in zip(arrivals, requests, strict=False):
                due_s = start_s + offset_s
                if not _is_before(due_s, until_s):
                    break
                body = self._target.body(request)
                await self._sleep_until(due_s)
                if self._sender.gone or self._stopped:
                    return
                in_flight.create_task(self._sender.carry_out(request, body, due_s))
            if until_s is not None:
                await self._sleep_until(until_s)
            else:
                self._sender.no_more_begin()

    def _sent_the_last(self) -> None:
        if self._counter.phase == "measured":
            self._begin_drain(self._now())

    def _take_record(self, record: RequestRecord) -> None:
        self._counter.ended(record)
        self._put({"type": "request", "record": record})

    def _now(self) -> float:
        return self._target.run_time()

    def _say(self, phase: str, t_s: float | None = None) -> None:
        self._put({"type": "phase", "phase": phase, "t_s": self._now() if t_s is None else t_s})

    def _tick(self) -> None:
        tick = self._counter.take(self._now())
        self._put({"type": "tick", **tick})
        if self._saturation and self._is_open and tick["phase"] == "measured" and not self._draining:
            figures = self._saturation.take(tick)
            if figures is not None:
                self._stop_early(tick["t_s"], figures)

    async def _tick_on_time(self) -> None:
        due_s = TICK_S
        while True:
            await self._sleep_until(due_s)
            self._tick()
            # A sleep may end a hair early: the next tick is counted from the one that was due.
            due_s = (max(self._now(), due_s) // TICK_S + 1) * TICK_S

    async def _sleep_until(self, t_s: float) -> None:
        await asyncio.sleep(max(t_s - self._now(), 0.0))


def _is_before(t_s: float, until_s: float | None) -> bool:
    return until_s is None or t_s < until_s


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
