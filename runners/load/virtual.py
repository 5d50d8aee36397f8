"""The same load on a virtual clock: plan, records and ticks are those of the real client, the server is an engine.

Nothing waits: when the engine has no work the clock jumps to the next arrival. The client is ideal (it sends on
time, the network takes none), so a request is sent when its plan says, and meets the engine at the next step.
Requests never time out.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import numpy as np

from runners.events import AnyEvent, RequestRecord, Sample, Status, Step
from runners.load.drive import PAUSE_AFTER_ERROR_S, LoadResult
from runners.load.plan import Phase, PlannedRequest, RequestPlan
from runners.load.prompts import PromptSource, SyntheticPrompts
from runners.load.step_sums import sum_steps
from runners.load.ticks import TICK_S, TickCounter
from runners.load.trace import RequestTrace
from runners.runtime.engine import Engine, RequestRejected, RequestTiming, TokenOutput
from runners.spec import ClosedArrival, RunSpec

Sink = Callable[[AnyEvent], None]
StatusPhase = Literal["warming_up", "measuring", "draining", "done"]


class Clock(Protocol):
    def now(self) -> float: ...
    def advance_to(self, t_s: float) -> None: ...


def run(
    spec: RunSpec,
    engine: Engine,
    clock: Clock,
    sink: Sink,
    *,
    prompts: PromptSource | None = None,
    wall: Callable[[], float] = time.time,
) -> LoadResult:
    """Runs the whole load of `spec`; `sink` gets Status, Step, Sample and RequestRecord events in the order of their
    times. Without `prompts` all are random token ids of the drawn lengths, for a text workload too: a modelled
    engine sees lengths and prefixes alone. `clock` must be the one that times `engine`, and stand at 0."""
    if clock.now() != 0.0:
        raise ValueError(f"clock: stands at {clock.now()} s; allowed: 0, where the run's time begins")
    source = prompts or SyntheticPrompts(spec.seed, np.arange(int(spec.model.shape["vocab_size"])))
    return VirtualLoad(RequestPlan(spec.workload, spec.seed, source), engine, clock, sink, wall).run()


class VirtualLoad:
    """One load from the clock's 0 to its end."""

    def __init__(self, plan: RequestPlan, engine: Engine, clock: Clock, sink: Sink, wall: Callable[[], float]) -> None:
        self._plan = plan
        self._engine = engine
        self._clock = clock
        self._sink = sink
        self._wall = wall
        self._counter = TickCounter()
        self._steps: list[Step] = []
        self._next_tick = 1
        self._traces: dict[str, RequestTrace] = {}
        self._due_s: list[float] = []
        self._num_sent = 0
        self._until_s: float | None = None
        self._draining = False

    def run(self) -> LoadResult:
        self._say("warming_up")
        self._run_phase("warmup", until_s=None)
        self._flush_tick()
        self._counter.phase = "measured"
        self._say("measuring")
        start_s = self._now()
        duration_s = self._plan.workload.duration_s
        end_s = None if duration_s is None else start_s + duration_s
        self._run_phase("measured", end_s)
        self._begin_drain()
        self._flush_tick()
        self._say("done")
        window_end_s = self._now() if end_s is None else end_s
        # An ideal client is never the limit, and has nothing to show for it.
        client = {"virtual": True, "sent": self._num_sent, "was_limit": False, "limited_by": []}
        return LoadResult(start_s, window_end_s, client)

    def _run_phase(self, phase: Phase, until_s: float | None) -> None:
        requests, arrivals = self._plan.requests(phase), self._plan.arrivals(phase)
        start_s, self._until_s = self._now(), until_s
        if arrivals is None:
            arrival = self._plan.workload.arrival
            assert isinstance(arrival, ClosedArrival)
            self._due_s = [start_s] * arrival.max_concurrency
        else:
            self._due_s = [start_s + next(arrivals)]
        while True:
            self._send_due(requests, arrivals, start_s)
            if self._engine.has_work:
                self._step()
            elif self._due_s:
                self._pass_time(self._due_s[0])
            else:
                break
        if until_s is not None:
            self._pass_time(until_s)

    def _send_due(self, requests: Iterator[PlannedRequest], arrivals: Iterator[float] | None, start_s: float) -> None:
        """Send what is due by now; forget what would be due when the phase no longer sends."""
        while self._due_s and (self._due_s[0] <= self._now() or self._is_over(self._due_s[0])):
            due_s = heapq.heappop(self._due_s)
            request = None if self._is_over(due_s) else next(requests, None)
            if request is None:
                self._due_s.clear()
                if self._until_s is None and self._counter.phase == "measured":
                    self._begin_drain()
                return
            self._send(request, due_s)
            if arrivals is not None:
                heapq.heappush(self._due_s, start_s + next(arrivals))

    def _send(self, request: PlannedRequest, due_s: float) -> None:
        trace = RequestTrace(request, scheduled_s=due_s, sent_s=due_s)
        self._num_sent += 1
        self._counter.sent()
        try:
            self._engine.add(request.request_id, request.prompt_ids, request.params)
        except RequestRejected as error:
            self._take_record(trace.end(self._now(), "error", str(error)))
        else:
            self._traces[request.request_id] = trace

    def _step(self) -> None:
        output = self._engine.step()
        if output is None:
            return
        end_s = output.step.start_s + output.step.duration_s
        self._reach(end_s)
        self._steps.append(output.step)
        self._sink(output.step)
        for token in output.tokens:
            self._take_token(token, end_s)

    def _take_token(self, token: TokenOutput, t_s: float) -> None:
        trace = self._traces[token.request_id]
        trace.add_tokens(t_s, 1)
        self._counter.tokens(trace, 1)
        if token.finish_reason is not None and token.timing is not None:
            del self._traces[token.request_id]
            trace.finish_reason = token.finish_reason
            self._take_timing(trace, token.timing)
            self._take_record(trace.end(t_s, "ok"))

    def _take_timing(self, trace: RequestTrace, timing: RequestTiming) -> None:
        trace.cached_tokens = timing.cached_tokens
        trace.take_runtime(
            {
                "queued_s": timing.queued_s,
                "scheduled_first_s": timing.scheduled_first_s,
                "prefill_done_s": timing.prefill_done_s,
                "preemptions": timing.preemptions,
                "draft_tokens": timing.draft_tokens,
                "accepted_tokens": timing.accepted_tokens,
            },
            zero_s=0.0,
        )

    def _take_record(self, record: RequestRecord) -> None:
        self._counter.ended(record)
        self._sink(record)
        if isinstance(self._plan.workload.arrival, ClosedArrival):
            pause_s = 0.0 if record.status == "ok" else PAUSE_AFTER_ERROR_S
            heapq.heappush(self._due_s, self._now() + pause_s)

    def _pass_time(self, t_s: float) -> None:
        """Let the clock run to `t_s`, or nowhere when that is past."""
        self._reach(t_s)
        self._clock.advance_to(t_s)

    def _reach(self, t_s: float) -> None:
        """Say what falls due on the way to `t_s`: ticks, and the end of the window."""
        if self._until_s is not None and t_s >= self._until_s:
            self._emit_ticks(self._until_s)
            self._begin_drain(self._until_s)
        self._emit_ticks(t_s)

    def _emit_ticks(self, t_s: float) -> None:
        while self._next_tick * TICK_S <= t_s:
            self._emit_tick(self._next_tick * TICK_S)
            self._next_tick += 1

    def _flush_tick(self) -> None:
        self._emit_ticks(self._now())
        self._emit_tick(self._now())

    def _emit_tick(self, t_s: float) -> None:
        tick = self._counter.take(t_s)
        if tick["interval_s"] > 0:
            self._sink(Sample(**tick, **sum_steps(self._steps), kv_blocks=self._engine.kv_blocks()))
        self._steps.clear()

    def _begin_drain(self, t_s: float | None = None) -> None:
        if not self._draining:
            self._draining = True
            self._say("draining", t_s)

    def _say(self, phase: StatusPhase, t_s: float | None = None) -> None:
        self._sink(Status(phase=phase, t_s=self._now() if t_s is None else t_s, wall_s=self._wall()))

    def _is_over(self, t_s: float) -> bool:
        return self._until_s is not None and t_s >= self._until_s

    def _now(self) -> float:
        return self._clock.now()
