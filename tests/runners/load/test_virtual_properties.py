"""Whatever the workload and the engine's limits: each request ends once, in order, and no block stays held."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from test_virtual import play, records, run_spec

from runners.events import Sample, Step

CLOSED = st.builds(lambda users: {"kind": "closed", "max_concurrency": users}, st.integers(1, 20))
OPEN = st.builds(
    lambda rate, burstiness: {"kind": "open", "request_rate": rate, "burstiness": burstiness},
    st.sampled_from([20.0, 500.0, 10_000.0]),
    st.sampled_from([0.2, 1.0, 5.0]),
)
ENDS = st.one_of(
    st.builds(lambda count: {"num_requests": count}, st.integers(1, 25)),
    st.builds(lambda duration_s: {"duration_s": duration_s}, st.sampled_from([0.001, 0.02, 0.3])),
)
ENGINES = st.fixed_dictionaries(
    {
        "max_num_seqs": st.integers(1, 16),
        "max_num_batched_tokens": st.integers(16, 512),
        "block_size": st.sampled_from([8, 32, 128]),
        "prefix_cache": st.booleans(),
        "weights": st.sampled_from(["bf16", "int8"]),
    }
)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.one_of(CLOSED, OPEN), ENDS, ENGINES, st.integers(0, 5))
def test_every_load_ends_with_its_requests_whole(
    seed: int, arrival: dict[str, Any], end: dict[str, Any], engine: dict[str, Any], num_warmup: int
) -> None:
    spec = run_spec(seed, engine, arrival=arrival, warmup={"num_requests": num_warmup}, **end)
    result, events = play(spec)
    warmup, measured = records(events, "warmup"), records(events)
    assert result.window_start_s is not None and result.window_end_s is not None
    assert len(warmup) == num_warmup
    assert sorted(record.index for record in measured) == [num_warmup + i for i in range(len(measured))]
    if "num_requests" in end:
        assert len(measured) == end["num_requests"]
    for record in [*warmup, *measured]:
        assert record.status == "ok" and sum(record.token_counts) == record.target_output_tokens
        assert record.cached_tokens == 0 and record.input_tokens
        assert record.queued_s is not None and record.scheduled_first_s is not None
        assert record.scheduled_s == record.sent_s <= record.queued_s <= record.scheduled_first_s
        assert record.token_times_s == sorted(record.token_times_s)
        assert record.prefill_done_s == record.first_token_s
    assert all(result.window_start_s <= record.sent_s <= result.window_end_s for record in measured)
    steps = [event for event in events if isinstance(event, Step)]
    assert all(step.running <= engine["max_num_seqs"] for step in steps)
    assert all(step.prefill_tokens + step.decode_tokens <= engine["max_num_batched_tokens"] for step in steps)
    assert sum(event.steps for event in events if isinstance(event, Sample)) == len(steps)
