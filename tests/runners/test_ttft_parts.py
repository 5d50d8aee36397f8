"""The parts of TTFT: they add up to it, and are not given where one end's times are not known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.events import RequestRecord
from runners.ttft_parts import PARTS, mean_parts, part_values, split_ttft

SECONDS = st.floats(min_value=0, max_value=1e4, allow_nan=False)


def record(**changes: Any) -> RequestRecord:
    values = {
        "index": 0, "request_id": "r0", "phase": "measured", "status": "ok",
        "scheduled_s": 1.0, "sent_s": 1.1, "queued_s": 1.15, "scheduled_first_s": 1.35, "prefill_done_s": 1.85,
        "first_token_s": 1.95, "finished_s": 3.0,
    }  # fmt: skip
    return RequestRecord.model_validate(values | changes)


def test_each_part_lies_between_the_times_that_it_is_named_after() -> None:
    parts = split_ttft(record())
    assert parts is not None
    found = [parts.client_wait, parts.network, parts.queue, parts.prefill, parts.first_sample]
    assert found == pytest.approx([0.1, 0.05, 0.2, 0.5, 0.1])


@settings(max_examples=60)
@given(st.lists(SECONDS, min_size=6, max_size=6).map(sorted))
def test_the_parts_add_up_to_ttft_and_with_the_client_wait_to_the_effective_one(times: list[float]) -> None:
    names = ("scheduled_s", "sent_s", "queued_s", "scheduled_first_s", "prefill_done_s", "first_token_s")
    told = dict(zip(names, times, strict=True))
    parts = split_ttft(record(**told))
    assert parts is not None
    assert parts.ttft_s == pytest.approx(told["first_token_s"] - told["sent_s"], abs=1e-9)
    assert parts.effective_ttft_s == pytest.approx(told["first_token_s"] - told["scheduled_s"], abs=1e-9)


@pytest.mark.parametrize("lacking", ["queued_s", "scheduled_first_s", "prefill_done_s", "first_token_s"])
def test_a_request_without_one_of_the_times_is_not_split(lacking: str) -> None:
    assert split_ttft(record(**{lacking: None})) is None


def test_times_of_another_clock_are_not_taken_for_parts() -> None:
    assert split_ttft(record(queued_s=1.099)) is not None
    assert split_ttft(record(queued_s=0.5)) is None
    assert split_ttft(record(prefill_done_s=2.5)) is None


def test_the_mean_parts_add_up_to_the_mean_ttft_of_the_requests_that_can_be_split() -> None:
    records = [record(), record(first_token_s=2.95), record(queued_s=None)]
    found = mean_parts(records)
    assert found is not None
    assert found["n"] == 2
    assert found["ttft_s"] == pytest.approx((0.85 + 1.85) / 2)
    assert sum(found["mean_s"][part] for part in PARTS if part != "client_wait") == pytest.approx(found["ttft_s"])
    assert mean_parts([record(queued_s=None)]) is None
    assert part_values(records)["network_time"] == pytest.approx([0.05, 0.05])
