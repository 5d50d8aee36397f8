"""Sessions, thinking, stages and classes in a document: what is taken, and how what is not is told."""

from __future__ import annotations

from typing import Any

import pytest
from documents import document

from runners.document import FieldError, SpecError, validate_document
from runners.spec import WorkloadSpec

STAGES = {"workload.num_requests": None, "workload.arrival": {"kind": "stages", "stages": [
    {"duration_s": 10, "request_rate": 2, "ramp": "linear"}, {"duration_s": 20, "request_rate": 4}]}}  # fmt: skip


def workload(changes: dict[str, Any]) -> WorkloadSpec:
    return validate_document(document(changes)).workload


def error_of(changes: dict[str, Any]) -> FieldError:
    with pytest.raises(SpecError) as caught:
        validate_document(document(changes))
    (error,) = caught.value.errors
    return error


def stages(*changed: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"workload.num_requests": None, "workload.arrival": {"kind": "stages", "stages": list(changed), **more}}


def shares(*given: float, **more: Any) -> dict[str, Any]:
    return {"workload.classes": [{"name": f"c{place}", "share": share, **more} for place, share in enumerate(given)]}


def test_a_conversation_and_a_task_are_taken_with_defaults() -> None:
    assert workload({"workload.kind": "conversation"}).most_requests == 4
    assert workload({"workload.kind": "agent", "workload.agent": {"fan_out": 3}}).most_requests == 8


def test_keys_of_another_kind_may_be_there_so_that_the_kind_can_be_compared() -> None:
    assert workload({"workload.conversation": {"turns": {"dist": "fixed", "count": 9}}}).most_rounds == 1


def test_stages_say_how_long_the_load_lasts_and_how_much_is_expected() -> None:
    found = workload(STAGES)
    assert found.lasts_s == 30 and found.is_open and found.most_users == 0
    assert found.arrival.expected_requests == 10 + 80  # type: ignore[union-attr]
    users = workload(stages({"duration_s": 5, "max_concurrency": 7}))
    assert not users.is_open and users.most_users == 7


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        (STAGES | {"workload.num_requests": 5}, "workload.num_requests", "stages say how long"),
        (STAGES | {"workload.duration_s": 5.0}, "workload.duration_s", "stages say how long"),
        (stages(), "workload.arrival.stages", "not allowed"),
        (stages({"duration_s": 5}), "workload.arrival.stages.0.request_rate", "exactly one"),
        (stages({"duration_s": 5, "request_rate": 1, "max_concurrency": 1}), "workload.arrival.stages.0.request_rate",
         "exactly one"),
        (stages({"duration_s": 5, "request_rate": 1}, {"duration_s": 5, "max_concurrency": 1}),
         "workload.arrival.stages.1", "all rates or all users"),
        (stages({"duration_s": 5, "request_rate": 0}), "workload.arrival.stages", "level 0"),
        (stages({"duration_s": 86_400, "request_rate": 1_000}), "workload.arrival.stages", "about 86400000 requests"),
        (shares(0.5, 0.4), "workload.classes", "add up to 0.9"),
        (shares(0.5, 0.5, name="same"), "workload.classes.1.name", "two classes"),
        ({"workload.thinking": {"factor": 21.0}}, "workload.thinking.factor", "not allowed"),
        ({"workload.thinking": {"factor": 20.0, "effort": 20.0},
          "workload.output_len": {"dist": "fixed", "tokens": 400}}, "workload.thinking.factor", "more token times"),
        ({"workload.kind": "agent", "workload.agent": {"fan_out": 2, "calls": {"dist": "fixed", "count": 2}}},
         "workload.agent.calls", "leave none"),
        ({"workload.conversation": {"turns": {"dist": "uniform", "min_count": 5, "max_count": 2}}},
         "workload.conversation.turns.min_count", "above max_count"),
        ({"workload.conversation": {"think_time_s": {"dist": "uniform", "min_s": 5, "max_s": 2}}},
         "workload.conversation.think_time_s.min_s", "above max_s"),
        ({"workload.kind": "conversation", "workload.conversation": {"turns": {"dist": "fixed", "count": 1_000}},
          "workload.arrival": {"kind": "open", "request_rate": 2.0}, "workload.num_requests": None,
          "workload.duration_s": 3_600.0}, "workload.arrival.request_rate", "about 7200000 requests"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_field(changes: dict[str, Any], field: str, words: str) -> None:
    error = error_of(changes)
    assert error.field == field
    assert words in error.message and error.allowed


def test_shares_may_be_a_thousandth_off() -> None:
    assert len(workload(shares(0.333, 0.333, 0.333)).classes) == 3


def test_the_longest_of_classes_and_thinking_count() -> None:
    lengths = {
        "workload.input_len": {"dist": "fixed", "tokens": 10},
        "workload.output_len": {"dist": "fixed", "tokens": 4},
    }
    classes = [
        {"name": "a", "share": 0.5, "input_len": {"dist": "fixed", "tokens": 100}},
        {"name": "b", "share": 0.5, "output_len": {"dist": "fixed", "tokens": 50}},
    ]
    assert workload(lengths).longest == 14
    mixed = lengths | {"workload.classes": classes}
    assert (workload(mixed).longest_prompt, workload(mixed).longest) == (100, 104)
    thinking = {"workload.thinking": {"factor": {"dist": "uniform", "min_factor": 1, "max_factor": 3}}}
    assert workload(mixed | thinking).longest == 10 + 50 * 4
