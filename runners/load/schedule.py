"""When a phase of a load sends: the arrivals of an open loop, the users of a closed one, for any kind of arrival."""

from __future__ import annotations

from collections.abc import Iterator

from runners.load.arrivals import arrival_times
from runners.load.planned import Phase, Users
from runners.load.seeds import Stream, random_stream
from runners.load.stages import Levels, staged_arrivals
from runners.load.users import ConstantUsers, StagedUsers
from runners.spec import ClosedArrival, OpenArrival, RecordedArrival, StagedArrival, WorkloadSpec


def arrivals_of(workload: WorkloadSpec, seed: int, phase: Phase) -> Iterator[float] | None:
    """Seconds since the phase's start at which an open loop sends, rising; None for a closed one. Those of stages come
    to an end with them; a warm-up goes at one rate."""
    arrival = workload.arrival
    if isinstance(arrival, ClosedArrival) or not workload.is_open:
        return None
    assert not isinstance(arrival, RecordedArrival), "the times of a trace are in its rows: runners.load.trace_plan"
    rng = random_stream(seed, Stream.WARMUP_ARRIVALS if phase == "warmup" else Stream.ARRIVALS)
    if isinstance(arrival, StagedArrival):
        if phase == "measured":
            return staged_arrivals(arrival, rng)
        arrival = OpenArrival(kind="open", request_rate=arrival.warmup_level, burstiness=arrival.burstiness)
    return arrival_times(arrival, rng)


def users_of(workload: WorkloadSpec, phase: Phase) -> Users:
    """Who sends in a closed loop. Raises ValueError for an open one."""
    arrival = workload.arrival
    if workload.is_open:
        raise ValueError(f"arrival: {arrival.kind} has no users; allowed: closed, or stages of users")
    if isinstance(arrival, ClosedArrival):
        return ConstantUsers(arrival.max_concurrency)
    assert isinstance(arrival, StagedArrival)
    if phase == "warmup":
        return ConstantUsers(int(arrival.warmup_level))
    return StagedUsers(Levels(arrival))
