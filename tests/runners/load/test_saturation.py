"""An open loop's over-saturation: told of a backlog that grows without end and of nothing else; it stops a load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from golden_server import DONE, Answer, events, load_golden, tokens, usage
from test_virtual import play, run_spec

from runners.events import Report, RequestRecord, Status
from runners.load.drive import LoadResult
from runners.load.plan import make_plan
from runners.load.prompts import SyntheticPrompts
from runners.load.saturation import LEAST_IN_FLIGHT, LEAST_S, SaturationWatch
from runners.load.ticks import TICK_S
from runners.metrics import summarize
from runners.spec import WorkloadSpec
from runners.steady_state import why_stopped

Curve = Callable[[float], float]


def first_told_s(in_flight: Curve, ttft_s: Curve, until_s: float = 120.0) -> float | None:
    """When a watch first speaks of a load whose figures are those of the second since the window's start."""
    watch = SaturationWatch()
    for place in range(1, int(until_s / TICK_S) + 1):
        t_s = place * TICK_S
        tick = {"t_s": t_s, "interval_s": TICK_S, "in_flight": int(in_flight(t_s)), "ttft_p50_s": ttft_s(t_s)}
        if watch.take(tick) is not None:
            return t_s
    return None


def test_a_backlog_that_keeps_growing_is_told_once_there_is_enough_of_it() -> None:
    assert first_told_s(lambda t: 4 * t, lambda t: 0.1 + 0.3 * t) == LEAST_S
    late = first_told_s(lambda t: 0.5 * t, lambda t: 0.1 + 0.1 * t)
    assert late is not None and late >= 2 * LEAST_IN_FLIGHT


@pytest.mark.parametrize(
    ("in_flight", "ttft_s"),
    [
        (lambda t: 400.0, lambda t: 0.3),  # steady
        (lambda t: min(10 * t, 600), lambda t: 0.1 + min(t, 60) / 1000),  # long answers: it fills, and none waits
        (lambda t: 40 + 4 * t, lambda t: 0.3),  # grows, and none waits
        (lambda t: max(300 - 4 * abs(t - 12), 20), lambda t: max(3 - 0.04 * abs(t - 12), 0.1)),  # a burst, worked off
        (lambda t: 40 + (t % 5) * 20, lambda t: 0.1 + 0.1 * (t % 5)),  # in waves
    ],
)
def test_what_settles_or_is_worked_off_is_not(in_flight: Curve, ttft_s: Curve) -> None:
    assert first_told_s(in_flight, ttft_s) is None


class OneAtATime:
    """Serves requests in turn, each for a set time; its queue is without end."""

    def __init__(self, service_s: float) -> None:
        self._service_s = service_s
        self._free_s = 0.0

    def answer(self, now_s: float) -> Answer:
        self._free_s = max(self._free_s, now_s) + self._service_s
        wait_s = self._free_s - now_s
        return events((wait_s, tokens(4, "length")), (wait_s, usage(6, 4)), (wait_s, DONE), end_s=wait_s)


def load(request_rate: float, **changes: Any) -> tuple[LoadResult, list[dict[str, Any]]]:
    """An open loop against a server that takes 8 requests per second."""
    fields: dict[str, Any] = {
        "kind": "synthetic",
        "arrival": {"kind": "open", "request_rate": request_rate},
        "input_len": {"dist": "fixed", "tokens": 6},
        "output_len": {"dist": "fixed", "tokens": 4},
        "duration_s": 300.0,
        "warmup": {"num_requests": 2},
        **changes,
    }
    plan = make_plan(WorkloadSpec.model_validate(fields), 1, SyntheticPrompts(1, range(100)))
    server = OneAtATime(0.125)
    result, lines, _ = load_golden(plan, lambda _, now_s: server.answer(now_s), stop_when_saturated=True)
    return result, lines


@pytest.mark.parametrize("end", [{}, {"duration_s": None, "num_requests": 4000}])
def test_an_over_saturated_load_stops_early_and_says_why(end: dict[str, Any]) -> None:
    result, lines = load(16.0, **end)
    assert result.window_start_s is not None and result.window_end_s is not None
    window_s = result.window_end_s - result.window_start_s
    assert LEAST_S <= window_s < 2 * LEAST_S
    assert result.client["stopped_early"] == "over_saturated"
    figures = result.client["saturation"]
    assert figures["after_s"] == pytest.approx(window_s) and figures["in_flight"] > LEAST_IN_FLIGHT
    # Of every second half a second's requests are served.
    assert figures["ttft_slope"] == pytest.approx(0.5, abs=0.15)
    # Nothing more was sent, and what was in flight went on to its end.
    records = [line["record"] for line in lines if line["type"] == "request"]
    assert {record.status for record in records} == {"ok"} and len(records) == result.client["sent"]
    assert max(record.sent_s for record in records) <= result.window_end_s
    phases = [(line["phase"], line["t_s"]) for line in lines if line["type"] == "phase"]
    assert phases[-2] == ("draining", result.window_end_s)
    told = Report(outcome="succeeded", client=result.client).client["saturation"]
    assert "grew by 0." in why_stopped(told) and "at most 0.05 is allowed" in why_stopped(told)


def test_a_load_that_the_server_keeps_up_with_goes_on_to_its_end() -> None:
    result, _ = load(6.0)
    assert "stopped_early" not in result.client
    assert result.window_end_s is not None and result.window_start_s is not None
    assert result.window_end_s - result.window_start_s == 300.0


def test_a_virtual_load_stops_as_well_and_is_invalid_for_it() -> None:
    slow = {"max_num_seqs": 1}
    fields = {"arrival": {"kind": "open", "request_rate": 200.0}, "duration_s": 600.0, "stop_when_saturated": True}
    spec = run_spec(engine=slow, **fields)
    result, found = play(spec)
    assert result.window_start_s is not None and result.window_end_s is not None
    assert LEAST_S <= result.window_end_s - result.window_start_s < 2 * LEAST_S
    assert result.client["stopped_early"] == "over_saturated"
    records = [event for event in found if isinstance(event, RequestRecord)]
    assert len(records) == result.client["sent"] and {record.status for record in records} == {"ok"}
    assert max(record.sent_s for record in records) <= result.window_end_s
    drains = [event.t_s for event in found if isinstance(event, Status) and event.phase == "draining"]
    assert drains == [result.window_end_s]
    report = Report(
        outcome="succeeded", client=result.client,
        window_start_s=result.window_start_s, window_end_s=result.window_end_s,
    )  # fmt: skip
    (reason,) = [one for one in summarize(records, [], report, spec).reasons if one.code == "no_steady_state"]
    assert "stopped early" in reason.message


def test_a_virtual_load_that_keeps_up_is_the_same_with_and_without_the_watch() -> None:
    fields = {"arrival": {"kind": "open", "request_rate": 5.0}, "duration_s": 30.0}
    watched, plain = (play(run_spec(**fields, stop_when_saturated=stop)) for stop in (True, False))
    assert watched == plain
