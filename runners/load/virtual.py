"""The same load on a virtual clock: plan, records and ticks are those of the real client, the server is a `System`.

Nothing waits: the clock jumps to whatever happens next, be it that a request is due, that a step of any engine ends, or
what else the system has under way. The client is ideal: it sends on time, and the network takes none. Requests never
time out.

At one moment things come in this order: a tick, the window's end, what ended in the system, what is sent, what begins.
Events are told in the order of their times, those of one moment in the order of the system's engines, and steps are
numbered so; they are held back until the next tick, as one engine may be asked later than another what it did before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from runners.events import Sample, Status
from runners.load.drive import PAUSE_AFTER_ERROR_S, LoadResult
from runners.load.due import DueRequests
from runners.load.plan import make_plan
from runners.load.planned import LoadPlan, Phase, PlannedRequest
from runners.load.prompts import PromptSource, SyntheticPrompts
from runners.load.saturation import REASON, SaturationWatch
from runners.load.step_sums import sum_steps
from runners.load.system import Ended, System
from runners.load.ticks import TICK_S, TickCounter
from runners.load.timeline import Sink, Timeline
from runners.load.trace import RequestTrace
from runners.load.trace_plan import TraceSource, replay_facts
from runners.runtime.engine import RequestRejected
from runners.runtime.outputs import RequestTiming
from runners.spec import RunSpec
from runners.spec.arrival import LONGEST_S

StatusPhase = Literal["warming_up", "measuring", "draining", "done"]


class TooLong(Exception):
    """The load takes more virtual time than a run may have: a sample is told of each quarter of a second, however
    little happens in it. Trying again would change nothing."""

    retry = False

    def __init__(self, at_s: float, num_ended: int) -> None:
        super().__init__(
            f"after {num_ended:,} requests the next event comes at {at_s:.3g} s of virtual time; allowed: a run of at "
            f"most {LONGEST_S:,.0f} s (fewer requests, a higher request_rate, or faster chips, links and tiers)"
        )


def run(
    spec: RunSpec,
    system: System,
    sink: Sink,
    *,
    prompts: PromptSource | None = None,
    wall: Callable[[], float] = time.time,
    trace: TraceSource | None = None,
) -> LoadResult:
    """Runs the whole load of `spec`; `sink` gets Status, Step, Sample and RequestRecord events in the order of their
    times. Without `prompts` all are random token ids of the drawn lengths, for a text workload too: a modelled
    engine sees lengths and prefixes alone. A workload of kind trace needs `trace`. The clock of `system` must stand at
    0. Raises TooLong."""
    if system.clock.now() != 0.0:
        raise ValueError(f"clock: stands at {system.clock.now()} s; allowed: 0, where the run's time begins")
    source = prompts or SyntheticPrompts(spec.seed, np.arange(int(spec.model.shape["vocab_size"])))
    plan = make_plan(spec.workload, spec.seed, source, trace)
    result = VirtualLoad(
        plan, system, sink, wall, SaturationWatch() if spec.workload.stop_when_saturated else None
    ).run()
    result.client.update(replay_facts(plan))
    return result


class VirtualLoad:
    """One load from the clock's 0 to its end."""

    def __init__(
        self,
        plan: LoadPlan,
        system: System,
        sink: Sink,
        wall: Callable[[], float],
        saturation: SaturationWatch | None = None,
    ) -> None:
        self._plan = plan
        self._system = system
        self._clock = system.clock
        self._wall = wall
        self._timeline = Timeline(sink, system.num_engines)
        self._counter = TickCounter()
        self._next_tick = 1
        self._traces: dict[str, RequestTrace] = {}
        self._num_sent = 0
        self._until_s: float | None = None
        self._draining = False
        self._saturation = saturation
        self._stopped: dict[str, Any] = {}

    def run(self) -> LoadResult:
        self._timeline.tell(self._status("warming_up", 0.0))
        self._run_phase("warmup", until_s=None)
        self._flush_tick()
        self._counter.phase = "measured"
        start_s = self._now()
        self._timeline.tell(self._status("measuring", start_s))
        duration_s = self._plan.lasts_s
        end_s = None if duration_s is None else start_s + duration_s
        self._run_phase("measured", end_s)
        self._begin_drain(self._now())
        self._flush_tick()
        self._timeline.tell(self._status("done", self._now()))
        if self._stopped:
            end_s = self._until_s
        window_end_s = self._now() if end_s is None else end_s
        # An ideal client is never the limit, and has nothing to show for it.
        client = {"virtual": True, "sent": self._num_sent, "was_limit": False, "limited_by": [], **self._stopped}
        return LoadResult(start_s, window_end_s, client)

    def _run_phase(self, phase: Phase, until_s: float | None) -> None:
        self._until_s = until_s
        self._due = DueRequests(self._plan, phase, self._now(), until_s)
        while True:
            self._send_due()
            self._system.start(self._due.next_s)
            event_s = self._next_event_s()
            if event_s is None:
                break
            self._pass_time(event_s)
        assert not self._traces, f"nothing goes on, and {len(self._traces)} requests have not ended"
        if self._until_s is not None:
            self._pass_time(self._until_s)

    def _next_event_s(self) -> float | None:
        own_s, system_s = self._due.next_s, self._system.next_event_s
        next_s = own_s if system_s is None else min(own_s, system_s)
        return None if next_s == math.inf else next_s

    def _send_due(self) -> None:
        for request, due_s in self._due.take(self._now()):
            self._send(request, due_s)
        if self._due.sent_all and self._until_s is None and self._counter.phase == "measured":
            self._begin_drain(self._now())

    def _send(self, request: PlannedRequest, due_s: float) -> None:
        trace = RequestTrace(request, scheduled_s=due_s, sent_s=due_s)
        self._num_sent += 1
        self._counter.sent()
        try:
            self._system.add(request.request_id, request.prompt_ids, request.params, request.priority)
        except RequestRejected as error:
            now_s = self._now()
            record = trace.end(now_s, "error", str(error))
            self._counter.ended(record)
            self._timeline.add(now_s, record)
            self._due.failed(request, now_s + PAUSE_AFTER_ERROR_S)
        else:
            self._traces[request.request_id] = trace

    def _take(self, ended: Ended) -> None:
        """What the client sees of steps that ended."""
        self._timeline.add_steps(ended)
        times_s, traces = ended.ends_s, self._traces
        if ended.before_s is None:
            for request_id, count in ended.tokens.items():
                trace = traces[request_id]
                trace.add_tokens(times_s[0], count)
                self._counter.tokens(trace, count)
            before_s, later_s = times_s[0], times_s[1:]
        else:
            before_s, later_s = ended.before_s, times_s
        if later_s:
            for request_id in ended.tokens:
                traces[request_id].add_single_tokens(later_s)
            self._counter.single_tokens(before_s, later_s, len(ended.tokens))
        for token in ended.finished:
            trace = self._traces.pop(token.request_id)
            trace.finish_reason = token.finish_reason
            assert token.timing is not None, "the last token of a request has its times"
            _take_timing(trace, token.timing)
            record = trace.end(times_s[-1], "ok")
            self._counter.ended(record)
            self._timeline.add(times_s[-1], record, ended.engine)
            self._due.ended(trace.request, times_s[-1], self._output_of(trace))

    def _output_of(self, trace: RequestTrace) -> tuple[int, ...] | None:
        """Where something follows that may hold it."""
        if trace.request.is_last:
            return None
        return self._system.output_ids(trace.request.params, trace.counted_tokens)

    def _pass_time(self, t_s: float) -> None:
        """Let the clock run to `t_s`, or nowhere when that is past: say what falls due on the way, and take what the
        system did by then. Raises TooLong."""
        if t_s > LONGEST_S:
            raise TooLong(t_s, self._num_sent - len(self._traces))
        if self._until_s is not None and t_s >= self._until_s:
            self._emit_ticks(self._until_s)
            if not self._draining:
                self._take_before(self._until_s)
                self._begin_drain(self._until_s)
                self._timeline.tell()
        self._emit_ticks(t_s)
        self._clock.advance_to(t_s)
        for ended in self._system.advance(self._now()):
            self._take(ended)

    def _take_before(self, t_s: float) -> None:
        for ended in self._system.look(t_s):
            self._take(ended)

    def _emit_ticks(self, t_s: float) -> None:
        while self._next_tick * TICK_S <= t_s:
            self._emit_tick(self._next_tick * TICK_S)
            self._next_tick += 1

    def _flush_tick(self) -> None:
        self._emit_ticks(self._now())
        self._emit_tick(self._now())

    def _emit_tick(self, t_s: float) -> None:
        self._take_before(t_s)
        self._timeline.tell()
        tick, steps = self._counter.take(t_s), sum_steps(self._timeline.take_steps())
        if tick["interval_s"] > 0:
            self._timeline.tell(Sample(**tick, **steps, kv_blocks=self._system.kv_blocks()))
            self._look_for_saturation(tick)

    def _look_for_saturation(self, tick: dict[str, Any]) -> None:
        if self._saturation is None or not self._due.is_open or self._draining or tick["phase"] != "measured":
            return
        figures = self._saturation.take(tick)
        if figures is not None:
            self._stopped = {"stopped_early": REASON, "saturation": figures}
            self._until_s = tick["t_s"]
            self._due.stop(tick["t_s"])
            self._begin_drain(tick["t_s"])

    def _begin_drain(self, t_s: float) -> None:
        if not self._draining:
            self._draining = True
            self._timeline.add(t_s, self._status("draining", t_s))

    def _status(self, phase: StatusPhase, t_s: float) -> Status:
        return Status(phase=phase, t_s=t_s, wall_s=self._wall())

    def _now(self) -> float:
        return self._clock.now()


def _take_timing(trace: RequestTrace, timing: RequestTiming) -> None:
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
