"""Tokens that come for many requests at once count in a tick as if each had come for itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.load.planned import PlannedRequest
from runners.load.ticks import TickCounter
from runners.load.trace import RequestTrace
from runners.runtime.sequence import SamplingParams


def trace_of(number: int, first_s: float) -> RequestTrace:
    request = PlannedRequest(number, "measured", str(number), (1, 2, 3), SamplingParams())
    trace = RequestTrace(request, 0.0, 0.0)
    trace.add_tokens(first_s, 1)
    return trace


@settings(max_examples=50)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6),
    st.lists(st.floats(1.0, 9.0), min_size=1, max_size=9, unique=True),
)
def test_both_ways_give_the_same_tick(firsts_s: list[float], times_s: list[float]) -> None:
    times_s.sort()
    single, together = TickCounter(), TickCounter()
    for number, first_s in enumerate(firsts_s):
        trace = trace_of(number, first_s)
        single.tokens(trace, 1)
        for time_s in times_s:
            trace.add_tokens(time_s, 1)
            single.tokens(trace, 1)
    for number, first_s in enumerate(firsts_s):
        trace = trace_of(number, first_s)
        together.tokens(trace, 1)
        trace.add_tokens(times_s[0], 1)
        together.tokens(trace, 1)
        trace.add_single_tokens(times_s[1:])
        assert trace.token_times_s == [first_s, *times_s] and trace.counted_tokens == 1 + len(times_s)
    together.single_tokens(times_s[0], times_s[1:], len(firsts_s))
    assert single.take(10.0) == together.take(10.0)


@settings(max_examples=50)
@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=60))
def test_percentiles_are_those_of_numpy(firsts_s: list[float]) -> None:
    counter = TickCounter()
    for number, first_s in enumerate(firsts_s):
        counter.tokens(trace_of(number, first_s), 1)
    tick = counter.take(10.0)
    assert tick["ttft_p50_s"] == pytest.approx(np.percentile(firsts_s, 50))
    assert tick["ttft_p95_s"] == pytest.approx(np.percentile(firsts_s, 95))
    assert tick["itl_p50_s"] is None and tick["itl_p95_s"] is None
