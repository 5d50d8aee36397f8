"""The requests of a run, before any is sent: the same workload and seed give the same plan, on HTTP or virtually.

Here are requests that each stand alone; those that follow each other are in `runners.load.session_plan`, recorded ones
in `runners.load.trace_plan`. Requests are numbered through the run, warm-up first. A request depends on its number
alone, so every setting that is compared under one seed meets the same requests, however fast it answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from runners.load.draws import Draws
from runners.load.planned import FollowUp, Ids, LoadPlan, Phase, PlannedRequest, Users
from runners.load.prompts import PromptSource
from runners.load.schedule import arrivals_of, users_of
from runners.load.session_plan import SessionPlan
from runners.load.trace_plan import TracePlan, TraceSource
from runners.spec import WorkloadSpec


def make_plan(workload: WorkloadSpec, seed: int, prompts: PromptSource, trace: TraceSource | None = None) -> LoadPlan:
    """The plan of a workload of any kind but tasks (runners.load.task_plan); of a trace, with where its rows are.

    Raises ValueError without those, and for tasks.
    """
    if workload.kind == "tasks":
        raise ValueError("workload.kind: tasks ask a model questions; allowed where it answers, on a measured node")
    if workload.kind == "trace":
        if trace is None:
            raise ValueError("trace: missing; allowed: the file of the trace that the workload names")
        return TracePlan(workload, seed, prompts, trace)
    return (SessionPlan if workload.has_sessions else RequestPlan)(workload, seed, prompts)


class RequestPlan:
    """Requests that each stand alone. Implements runners.load.planned.LoadPlan."""

    def __init__(self, workload: WorkloadSpec, seed: int, prompts: PromptSource) -> None:
        self.workload = workload
        self._seed = seed
        self._draws = Draws(workload, seed, prompts)
        self._num_warmup = workload.warmup.num_requests

    @property
    def lasts_s(self) -> float | None:
        return self.workload.lasts_s

    def requests(self, phase: Phase) -> Iterator[PlannedRequest]:
        """The phase's requests in order; endless where the workload ends by time."""
        if phase == "warmup":
            return map(self._request, range(self._num_warmup))
        count = self.workload.num_requests
        numbers = itertools.count(self._num_warmup)
        return map(self._request, numbers if count is None else itertools.islice(numbers, count))

    def arrivals(self, phase: Phase) -> Iterator[float] | None:
        return arrivals_of(self.workload, self._seed, phase)

    def users(self, phase: Phase) -> Users:
        return users_of(self.workload, phase)

    def after(self, number: int, output_ids: Ids | None) -> Sequence[FollowUp]:
        return ()

    def abandon(self, number: int) -> None:
        return

    def _request(self, number: int) -> PlannedRequest:
        traffic_class = self._draws.traffic_class(number)
        phase: Phase = "warmup" if number < self._num_warmup else "measured"
        output = self._draws.output(number, traffic_class)
        return PlannedRequest(
            number=number,
            phase=phase,
            request_id=f"{phase}-{number}",
            prompt_ids=self._draws.prefix(number) + self._draws.own_prompt(number, traffic_class),
            params=output.params,
            priority=traffic_class.priority if traffic_class else 0,
            traffic_class=traffic_class.name if traffic_class else None,
            thinking_tokens=output.thinking_tokens,
        )
