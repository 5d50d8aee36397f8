"""What a node says: every event survives the way through JSON, and nothing else passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runners.events import EVENT, MAX_MESSAGE, AnyEvent, Log, Report, RequestRecord, Sample, Status, Step

KINDS = [Status, Sample, RequestRecord, Step, Log, Report]
REPORT = Report(outcome="succeeded", facts={"torch": "2.13.0"}, window_start_s=0.5, events=3)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_told_by_its_name(kind: type[AnyEvent]) -> None:
    assert kind.model_fields["kind"].default == {
        Status: "status", Sample: "sample", RequestRecord: "request", Step: "step", Log: "log", Report: "report",
    }[kind]  # fmt: skip


@given(
    st.builds(Sample, t_s=st.floats(0, 1e6), interval_s=st.floats(0, 10), output_tokens=st.integers(0, 10**9))
    | st.builds(Status, wall_s=st.floats(0, 1e10), t_s=st.none() | st.floats(0, 1e6))
    | st.builds(Log, wall_s=st.floats(0, 1e10), message=st.text())
    | st.just(REPORT)
)
def test_an_event_survives_json(event: AnyEvent) -> None:
    assert EVENT.validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"dance"}',
        '{"t_s":1,"interval_s":0.25}',
        '{"kind":"sample","t_s":1,"interval_s":0.25,"extra":1}',
        '{"kind":"sample","t_s":NaN,"interval_s":0.25}',
        '{"kind":"sample","t_s":1}',
        "[]",
        "",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        EVENT.validate_json(text)


def test_an_event_can_not_be_changed() -> None:
    with pytest.raises(ValidationError):
        REPORT.events = 4  # type: ignore[misc]


def test_a_request_needs_one_count_for_each_time() -> None:
    record = RequestRecord(
        index=0, request_id="r", phase="measured", scheduled_s=0.0, sent_s=0.0, status="ok",
        token_times_s=[0.1, 0.2], token_counts=[1, 1],
    )  # fmt: skip
    text = record.model_dump_json().replace("[1,1]", "[1]")
    with pytest.raises(ValidationError, match="2 token_times_s but 1 token_counts"):
        EVENT.validate_json(text)


def test_a_log_line_has_a_bound() -> None:
    line = Log(wall_s=0.0, level="info", source="server", message="x" * MAX_MESSAGE)
    with pytest.raises(ValidationError):
        EVENT.validate_json(line.model_dump_json().replace("xx", "xxx", 1))
