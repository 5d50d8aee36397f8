"""What a plan of a load is to whoever carries it out: the requests, when they go, and what follows an answer.

A plan knows no transport and no clock. Who drives it tells it of each answer, and asks what comes of that; times are
told as seconds since the phase's start, or since an answer's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from runners.runtime.sequence import SamplingParams

Phase = Literal["warmup", "measured"]
Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """`params.max_tokens` is the drawn output length; with `ignore_eos` it is the least as well. A lower `priority`
    goes sooner.

    A request of a session is its `turn`-th step (from 1; requests side by side have one turn), one of
    `session_requests` that the session has in all, and `is_last` where nothing of the session comes after it.
    The first `thinking_tokens` of the output are not yet the answer. `check` says whether a whole answer is right.
    """

    number: int
    phase: Phase
    request_id: str
    prompt_ids: Ids
    params: SamplingParams
    priority: int = 0
    session: str | None = None
    turn: int | None = None
    session_requests: int | None = None
    is_last: bool = True
    traffic_class: str | None = None
    thinking_tokens: int | None = None
    check: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A request that goes `delay_s` after the end of the answer that it follows."""

    delay_s: float
    request: PlannedRequest


class Users(Protocol):
    """Who sends in a closed loop: users are numbered from 0 to `most - 1`."""

    @property
    def most(self) -> int: ...

    def next_start_s(self, user: int, t_s: float) -> float | None:
        """When a user who is free at `t_s` may begin something new, in seconds of the phase: at once, later, or never
        again (None)."""
        ...


class LoadPlan(Protocol):
    """All requests of one run. The same workload and seed give the same plan, on HTTP or virtually; of it, only the
    answers that a session's later prompts hold may depend on what the engine said."""

    @property
    def lasts_s(self) -> float | None:
        """Seconds for which the measured phase sends; None where it ends with its requests."""
        ...

    def requests(self, phase: Phase) -> Iterator[PlannedRequest]:
        """The requests with which something begins (a session, or a request alone), in order; endless where the
        workload ends by time. The next is asked for when it is about to be sent."""
        ...

    def arrivals(self, phase: Phase) -> Iterator[float] | None:
        """Seconds since the phase's start at which those of an open loop go; None for a closed one."""
        ...

    def users(self, phase: Phase) -> Users:
        """Who sends in a closed loop. A user begins anew when all that he began has ended."""
        ...

    def after(self, number: int, output_ids: Ids | None) -> Sequence[FollowUp]:
        """What follows the answer of request `number`, once: nothing, where its session is over or waits for others.
        Where the answer's ids are not known (None), others of its length stand in for them in later prompts."""
        ...

    def abandon(self, number: int) -> None:
        """Request `number` failed, or what was to follow it will not be sent: its session goes on no more."""
        ...
