"""Conversations, tasks, thinking and stages on the form."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from experiments.form.changes import changes_for
from experiments.form.fields import draw_form
from experiments.form.offer import Offer
from experiments.form.rewrite import apply
from runners.matrix import plan_experiment

OFFER = Offer(["smollm2-135m-instruct"], ["h100-sxm"], {"kind": ["modelled"]}, [], [])
DOCUMENT: dict[str, Any] = {
    "name": "x",
    "model": "smollm2-135m-instruct",
    "nodes": {"labels": {"kind": "modelled"}},
    "workload": {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 8}, "num_requests": 64},
    "matrix": {"engine.weights": ["bf16", "int8"]},
}


def changed(document: dict[str, Any], *steps: tuple[str, str]) -> dict[str, Any]:
    found = copy.deepcopy(document)
    for name, value in steps:
        for change in changes_for(name, value, found):
            apply(found, change)
    return found


def fields_of(document: dict[str, Any]) -> dict[str, Any]:
    return {field.path: field for group in draw_form(document, OFFER).groups for field in group.fields}


def test_a_workload_without_sessions_shows_nothing_of_them_and_offers_no_axis_over_them() -> None:
    form = draw_form(DOCUMENT, OFFER)
    assert not any(field.path.startswith(("workload.conversation", "workload.agent")) for field in form.controls)
    assert not any(path.startswith(("workload.conversation", "workload.agent")) for path in form.addable)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("conversation", ["conversation.turns.dist", "conversation.turns.count", "conversation.think_time_s.value_s"]),
        ("agent", ["agent.calls.count", "agent.tool_time_s.dist", "agent.tool_result_tokens.tokens", "agent.fan_out"]),
    ],
)
def test_each_kind_of_session_shows_its_own_keys(kind: str, shown: list[str]) -> None:
    document = changed(DOCUMENT, ("set:workload.kind", kind))
    assert {f"workload.{path}" for path in shown} <= set(fields_of(document))
    plan_experiment(document)


def test_a_pause_of_another_kind_starts_with_values_that_are_allowed() -> None:
    conversation = changed(DOCUMENT, ("set:workload.kind", "conversation"))
    for kind in ("uniform", "exponential", "lognormal", "fixed"):
        document = changed(conversation, ("pause:workload.conversation.think_time_s", kind))
        assert document["workload"]["conversation"]["think_time_s"]["dist"] == kind
        plan_experiment(document)
    document = changed(conversation, ("count:workload.conversation.turns", "uniform"))
    assert plan_experiment(document).spec.workload.most_rounds == 8


def test_every_setting_of_a_session_that_may_be_compared_makes_a_plan() -> None:
    for kind in ("conversation", "agent"):
        document = changed(DOCUMENT, ("set:workload.kind", kind), ("optional:workload.thinking", "given"))
        paths = [path for path in draw_form(document, OFFER).addable if path.startswith("workload.")]
        assert any(path.startswith(f"workload.{kind}.") for path in paths) and "workload.thinking.effort" in paths
        for path in paths:
            assert len(plan_experiment(changed(document, ("axis-add:", path))).cells) >= 2, path


def test_stages_say_themselves_when_the_load_ends_and_other_arrivals_are_told() -> None:
    document = changed(DOCUMENT, ("arrival:workload.arrival", "stages"))
    assert "num_requests" not in document["workload"] and "workload.num_requests" not in fields_of(document)
    assert plan_experiment(document).spec.workload.lasts_s == 120
    back = changed(document, ("arrival:workload.arrival", "open"))
    assert back["workload"]["num_requests"] == 64
    plan_experiment(back)


def test_an_axis_over_the_end_goes_when_stages_come() -> None:
    document = changed(DOCUMENT, ("axis:workload.num_requests", "32, 64"), ("arrival:workload.arrival", "stages"))
    assert "workload.num_requests" not in document["matrix"]
    plan_experiment(document)
