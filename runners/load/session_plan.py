"""Requests that follow each other: a person's turns, an agent's calls, each prompt with all before it.

A session's shape (how many turns, what each adds, how long it pauses) is drawn for its number and its requests' numbers
alone. What is not: answers, which come from the engine and stand in the prompts after them. So on a measured node the
same seed gives the same sessions and lengths, and the same tokens as far as the engine answers the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from runners.load.draws import Draws
from runners.load.lengths import draw_count
from runners.load.pauses import draw_pause_s
from runners.load.planned import FollowUp, Ids, Phase, PlannedRequest, Users
from runners.load.prompts import PromptSource
from runners.load.schedule import arrivals_of, users_of
from runners.load.seeds import Stream
from runners.spec import CountSpec, PauseSpec, TrafficClass, WorkloadSpec


@dataclass(frozen=True, slots=True)
class Shape:
    """A session before it begins: its place among all, its first request's number, and how many requests go side by
    side in each of its turns."""

    index: int
    phase: Phase
    first: int
    widths: tuple[int, ...]

    @property
    def num_requests(self) -> int:
        return sum(self.widths)

    @property
    def name(self) -> str:
        return f"session-{self.index}"


@dataclass(slots=True)
class _Session:
    """One under way. `history` is what every prompt of its turn begins with; `waiting` are the turn's own tokens by
    request number, `answers` what came of them so far."""

    shape: Shape
    traffic_class: TrafficClass | None
    history: Ids
    turn: int = 0
    next_number: int = 0
    waiting: dict[int, PlannedRequest] = field(default_factory=dict)
    own: dict[int, Ids] = field(default_factory=dict)
    answers: dict[int, Ids] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.turn == len(self.shape.widths)


class SessionPlan:
    """Implements runners.load.planned.LoadPlan. Sessions are numbered through the run, warm-up first, and so are the
    requests of all of them, session by session."""

    def __init__(self, workload: WorkloadSpec, seed: int, prompts: PromptSource) -> None:
        self.workload = workload
        self._seed = seed
        self._draws = Draws(workload, seed, prompts)
        self._sessions: dict[int, _Session] = {}
        """Those under way, by the number of each request that is not answered yet."""
        self._warmup = list(self._shapes("warmup", 0, 0, workload.warmup.num_requests))

    @property
    def lasts_s(self) -> float | None:
        return self.workload.lasts_s

    def requests(self, phase: Phase) -> Iterator[PlannedRequest]:
        """The first request of each session; the next is drawn when it is asked for."""
        for shape in self._warmup if phase == "warmup" else self._measured():
            yield self._begin(shape)

    def arrivals(self, phase: Phase) -> Iterator[float] | None:
        return arrivals_of(self.workload, self._seed, phase)

    def users(self, phase: Phase) -> Users:
        return users_of(self.workload, phase)

    def after(self, number: int, output_ids: Ids | None) -> Sequence[FollowUp]:
        session = self._sessions.pop(number, None)
        if session is None or number not in session.waiting:
            return ()
        request = session.waiting.pop(number)
        session.answers[number] = self._answer(request, output_ids)
        if session.waiting or session.is_over:
            return ()
        for one in sorted(session.own):
            session.history += session.own[one] + session.answers[one]
        session.own.clear()
        session.answers.clear()
        following = self._next_turn(session)
        delay_s = draw_pause_s(self._pause, self._draws.rng(Stream.PAUSE, following[0].number))
        return [FollowUp(delay_s, one) for one in following]

    def abandon(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            session.waiting.clear()

    def _measured(self) -> Iterator[Shape]:
        first = sum(shape.num_requests for shape in self._warmup)
        return self._shapes("measured", len(self._warmup), first, self.workload.num_requests)

    def _shapes(self, phase: Phase, index: int, first: int, least: int | None) -> Iterator[Shape]:
        """Sessions until they have `least` requests together; without it endless."""
        end = None if least is None else first + least
        for place in itertools.count(index):
            if end is not None and first >= end:
                return
            shape = Shape(place, phase, first, self._widths(place))
            yield shape
            first += shape.num_requests

    def _widths(self, index: int) -> tuple[int, ...]:
        turns = draw_count(self._turns, self._draws.rng(Stream.TURNS, index))
        if self.workload.kind == "conversation":
            return (1,) * turns
        return tuple(self.workload.agent.width(turn, turns) for turn in range(1, turns + 1))

    @property
    def _turns(self) -> CountSpec:
        workload = self.workload
        return workload.conversation.turns if workload.kind == "conversation" else workload.agent.calls

    @property
    def _pause(self) -> PauseSpec:
        workload = self.workload
        return workload.conversation.think_time_s if workload.kind == "conversation" else workload.agent.tool_time_s

    def _begin(self, shape: Shape) -> PlannedRequest:
        traffic_class = self._draws.traffic_class(shape.index)
        session = _Session(shape, traffic_class, self._draws.prefix(shape.index), next_number=shape.first)
        return self._next_turn(session)[0]

    def _next_turn(self, session: _Session) -> list[PlannedRequest]:
        width = session.shape.widths[session.turn]
        session.turn += 1
        numbers = range(session.next_number, session.next_number + width)
        session.next_number += width
        return [self._request(session, number) for number in numbers]

    def _request(self, session: _Session, number: int) -> PlannedRequest:
        shape, traffic_class = session.shape, session.traffic_class
        own = self._own(session, number)
        output = self._draws.output(number, traffic_class)
        request = PlannedRequest(
            number=number,
            phase=shape.phase,
            request_id=f"{shape.phase}-{number}",
            prompt_ids=session.history + own,
            params=output.params,
            priority=traffic_class.priority if traffic_class else 0,
            session=shape.name,
            turn=session.turn,
            session_requests=shape.num_requests,
            is_last=session.is_over,
            traffic_class=traffic_class.name if traffic_class else None,
            thinking_tokens=output.thinking_tokens,
        )
        session.own[number] = own
        session.waiting[number] = request
        self._sessions[number] = session
        return request

    def _own(self, session: _Session, number: int) -> Ids:
        """What the request's prompt has that none before it had."""
        if self.workload.kind == "agent" and session.turn > 1:
            return self._draws.tool_result(number)
        return self._draws.own_prompt(number, session.traffic_class)

    def _answer(self, request: PlannedRequest, output_ids: Ids | None) -> Ids:
        """What of an output later prompts hold."""
        thinking = self.workload.thinking
        left_out = 0 if thinking is None or thinking.in_history else request.thinking_tokens or 0
        if output_ids is None:
            return self._draws.stand_in(request.number, request.params.max_tokens - left_out)
        return output_ids[left_out:]
