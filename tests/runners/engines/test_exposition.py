"""Metrics of engines as the figures of a sample."""

from __future__ import annotations

import pytest

from runners.engines.exposition import Gauges, read_gauges

VLLM = """# HELP vllm:num_requests_running x
vllm:num_requests_running{engine="0",model_name="a"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 2.0
vllm:num_requests_waiting{model_name="a"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.25
process_start_time_seconds 1.7e9
"""


def test_engines_behind_one_address_are_added_up_and_their_shares_averaged() -> None:
    gauges = read_gauges(VLLM)
    assert (gauges.source, gauges.running, gauges.waiting, gauges.kv_used) == ("vllm", 5, 1, 0.375)
    assert gauges.started_s == 1.7e9 and "vllm:num_requests_running" in gauges.names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (None, None, None, None)),
        ("nonsense\n{} 3\n\x00", (None, None, None, None)),
        ("other_metric 3", (None, None, None, None)),
        ("sglang:num_running_reqs{a=\"b c\"} 4\nsglang:token_usage 0.1", ("sglang", 4, None, 0.1)),
        ("llamacpp:requests_processing 2\nllamacpp:requests_deferred 0", ("llamacpp", 2, 0, None)),
        ("lab:num_requests_running NaN\nlab:num_requests_waiting 1", ("lab", None, 1, None)),
        ("vllm:gpu_cache_usage_perc 1.2", ("vllm", None, None, 1.0)),
    ],
)  # fmt: skip
def test_what_an_engine_does_not_tell_is_null(text: str, expected: tuple[object, ...]) -> None:
    gauges = read_gauges(text)
    assert (gauges.source, gauges.running, gauges.waiting, gauges.kv_used) == expected
    assert gauges.started_s is None and isinstance(gauges, Gauges)
