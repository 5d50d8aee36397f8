"""What a phase sends, and when, as far as that is known at a moment of virtual time.

Two kinds of things fall due: something new begins (by schedule, or since a user is free), and what follows an answer.
Of those due at one moment what follows goes first, in the order in which it came about. Sends nothing itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from runners.load.planned import Ids, LoadPlan, Phase, PlannedRequest


@dataclass(slots=True)
class _UnderWay:
    """A session (or a request alone): who began it in a closed loop, and how many of its requests are not ended."""

    user: int
    open_requests: int
    has_more: bool


class DueRequests:
    """Of a phase that began at `start_s`. From `until_s` on nothing is sent."""

    def __init__(self, plan: LoadPlan, phase: Phase, start_s: float, until_s: float | None) -> None:
        self._plan = plan
        self._start_s = start_s
        self._until_s = math.inf if until_s is None else until_s
        self._requests = plan.requests(phase)
        self._arrivals = plan.arrivals(phase)
        self._users = plan.users(phase) if self._arrivals is None else None
        self._begins: list[tuple[float, int]] = []
        self._follows: list[tuple[float, int, PlannedRequest]] = []
        self._order = count()
        self._under_way: dict[str, _UnderWay] = {}
        self._unfinished = 0
        self._next = next(self._requests, None) if self._arrivals is not None else None
        self._nothing_begins = False
        if self._users is None:
            self._schedule_arrival()
        else:
            for user in range(self._users.most):
                self._free(user, start_s)
            heapify(self._begins)

    @property
    def is_open(self) -> bool:
        """What begins is on a schedule, whatever has come back."""
        return self._arrivals is not None

    @property
    def next_s(self) -> float:
        """When the next is due; infinity where nothing is known to be."""
        begins_s = self._begins[0][0] if self._begins else math.inf
        return min(begins_s, self._follows[0][0]) if self._follows else begins_s

    @property
    def sent_all(self) -> bool:
        """The plan has come to its end, and every session has sent its last request."""
        return self._nothing_begins and not self._unfinished

    def take(self, now_s: float) -> Iterator[tuple[PlannedRequest, float]]:
        """What is due by now, each with when it was. Whoever sends it may tell at once that it failed."""
        while self.next_s <= now_s:
            if self._follows and (not self._begins or self._follows[0][0] <= self._begins[0][0]):
                due_s, _, request = heappop(self._follows)
                self._note_last(request)
                yield request, due_s
                continue
            due_s, user = heappop(self._begins)
            begun = self._begin(user)
            if begun is None:
                return
            yield begun, due_s

    def stop(self, t_s: float) -> None:
        """From `t_s` on nothing is sent, though it was planned."""
        self._until_s, self._nothing_begins = t_s, True
        self._begins.clear()
        follows, self._follows = self._follows, []
        for _, _, request in follows:
            self.failed(request, t_s)

    def ended(self, request: PlannedRequest, t_s: float, output_ids: Ids | None) -> None:
        """Its answer ended: what follows falls due, or the user who began it is free."""
        under_way = self._under_way[_key(request)]
        for one in self._plan.after(request.number, output_ids):
            if t_s + one.delay_s < self._until_s:
                heappush(self._follows, (t_s + one.delay_s, next(self._order), one.request))
                under_way.open_requests += 1
            else:
                self._leave(one.request, under_way)
        self._end_one(request, under_way, t_s)

    def failed(self, request: PlannedRequest, free_s: float) -> None:
        """It came to nothing, and nothing follows it. Its user may go on at `free_s`."""
        under_way = self._under_way[_key(request)]
        self._leave(request, under_way)
        self._end_one(request, under_way, free_s)

    def _begin(self, user: int) -> PlannedRequest | None:
        request = next(self._requests, None) if self._arrivals is None else self._next
        if request is None:
            self._nothing_begins = True
            self._begins.clear()
            return None
        if self._arrivals is not None:
            self._next = next(self._requests, None)
            self._schedule_arrival()
        self._under_way[_key(request)] = _UnderWay(user, 1, not request.is_last)
        self._unfinished += not request.is_last
        return request

    def _schedule_arrival(self) -> None:
        assert self._arrivals is not None
        offset_s = None if self._next is None else next(self._arrivals, None)
        if offset_s is None or self._start_s + offset_s >= self._until_s:
            self._nothing_begins = True
        else:
            heappush(self._begins, (self._start_s + offset_s, 0))

    def _free(self, user: int, t_s: float) -> None:
        if self._users is None or self._nothing_begins:
            return
        offset_s = self._users.next_start_s(user, t_s - self._start_s)
        if offset_s is None:
            return
        # Not by way of the phase's time, whose rounding would move a user who goes on at once.
        due_s = t_s if offset_s == t_s - self._start_s else self._start_s + offset_s
        if due_s < self._until_s:
            heappush(self._begins, (due_s, user))

    def _end_one(self, request: PlannedRequest, under_way: _UnderWay, t_s: float) -> None:
        under_way.open_requests -= 1
        if not under_way.open_requests:
            del self._under_way[_key(request)]
            self._free(under_way.user, t_s)

    def _leave(self, request: PlannedRequest, under_way: _UnderWay) -> None:
        self._plan.abandon(request.number)
        self._unfinished -= under_way.has_more
        under_way.has_more = False

    def _note_last(self, request: PlannedRequest) -> None:
        under_way = self._under_way[_key(request)]
        if request.is_last and under_way.has_more:
            under_way.has_more = False
            self._unfinished -= 1


def _key(request: PlannedRequest) -> str:
    return request.session or request.request_id
