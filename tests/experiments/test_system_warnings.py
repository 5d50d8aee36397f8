"""Settings of systems that no trial uses, or that work against each other, are told before they are submitted."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import document

from experiments.system_warnings import find_system_warnings
from runners.matrix import plan_experiment

TIER = {"capacity_bytes": 1e9, "bytes_per_s": 1e9}
POOLS = {"prefill": {"chip": "a"}, "decode": {"chip": "b"}}
SHARED = {**document()["workload"], "shared_prefix": {"groups": 2, "prefix_tokens": 64}}
TWO_KINDS = {"placement.disaggregate.kind": ["none", "prefill_decode"]}


def warned(**changes: Any) -> dict[str, str]:
    return {one.field: one.message for one in find_system_warnings(plan_experiment(document(**changes)))}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"workload": SHARED, "engine": {"prefix_tiers": {"host": TIER}}},
        {"engine": {"speculation": {"kind": "ngram", "acceptance": 0.5}}},
        {"placement": {"replicas": 2, "router": {"policy": "kv_aware"}}},
        {"placement": {"disaggregate": {"kind": "prefill_decode", **POOLS}, "router": {"policy": "least_loaded"}}},
        {"placement": {"replicas": 2, "disaggregate": POOLS}, "matrix": TWO_KINDS},
        {
            "engine": {"speculation": {"acceptance": 0.5}},
            "matrix": {"engine.speculation.kind": ["none", "ngram"]},
        },
    ],
)
def test_settings_that_trials_use_give_no_warning(changes: dict[str, Any]) -> None:
    assert warned(**changes) == {}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"workload": SHARED, "engine": {"prefix_cache": False}}, "workload.shared_prefix", "computed in full"),
        (
            {"engine": {"prefix_tiers": {"remote": TIER}, "prefix_cache": False}},
            "engine.prefix_tiers",
            "they stay empty",
        ),
        (
            {"placement": {"replicas": 2, "router": {"policy": "kv_aware"}}, "engine": {"prefix_cache": False}},
            "placement.router.policy",
            "looks for cached prefixes",
        ),
        ({"engine": {"speculation": {"acceptance": 0.5}}}, "engine.speculation", "kind is none in every trial"),
        ({"placement": {"disaggregate": POOLS}}, "placement.disaggregate", "kind is none in every trial"),
        ({"placement": {"router": {"policy": "least_loaded"}}}, "placement.router.policy", "there is one engine"),
        (
            {"placement": {"tensor_parallel": 8, "disaggregate": {"kind": "prefill_decode", **POOLS}}},
            "placement.tensor_parallel",
            "a layout of its own",
        ),
        (
            {"placement": {"replicas": 2, "disaggregate": {"kind": "prefill_decode", **POOLS}}},
            "placement.replicas",
            "a layout of its own",
        ),
        (
            {"chip": "c", "placement": {"disaggregate": {"kind": "prefill_decode", **POOLS}}},
            "chip",
            "name their chips",
        ),
    ],
)
def test_what_has_no_effect_is_told_at_its_field(changes: dict[str, Any], field: str, words: str) -> None:
    found = warned(**changes)
    assert set(found) == {field}
    assert words in found[field]


def test_a_cache_that_is_off_in_some_trials_is_told_with_how_many() -> None:
    found = warned(workload=SHARED, matrix={"engine.prefix_cache": [True, False], "engine.max_num_seqs": [1, 2]})
    assert "false in 2 of 4 trials" in found["workload.shared_prefix"]


TALK = {**document()["workload"], "kind": "conversation"}
MIXED = {
    **document()["workload"],
    "classes": [{"name": "chat", "share": 0.5, "priority": -1}, {"name": "batch", "share": 0.5}],
}


def test_histories_that_nobody_keeps_and_priorities_that_nobody_heeds_are_told() -> None:
    assert "computed in full" in warned(workload=TALK, engine={"prefix_cache": False})["workload.kind"]
    assert "fcfs" in warned(workload=MIXED)["workload.classes"]


def test_a_kept_history_and_a_heeded_priority_are_not() -> None:
    assert warned(workload=TALK) == {}
    assert warned(workload=MIXED, matrix={"engine.scheduler.policy": ["fcfs", "priority"]}) == {}
    assert warned(workload=MIXED, engine={"scheduler": {"policy": "priority"}}) == {}
