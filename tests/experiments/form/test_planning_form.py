"""How runs are decided on, as the form changes and draws it: every way leads to a document that is taken."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from experiments.form.changes import changes_for
from experiments.form.drawing import Drawing
from experiments.form.drawn_planning import draw_planning
from experiments.form.planning import BEST, FRONT, LOAD, UNTIL, kind_of_planning
from experiments.form.rewrite import apply
from runners.matrix import plan_experiment

DOCUMENT: dict[str, Any] = {
    "name": "x",
    "model": "smollm2-135m-instruct",
    "nodes": {},
    "workload": {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 8}, "num_requests": 64},
    "slo": {"ttft_s": {"p95": 0.5}},
    "matrix": {"engine.max_num_seqs": [8, 16], "workload.arrival.max_concurrency": [1, 8]},
    "repeats": 3,
}


def changed(document: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    found = copy.deepcopy(document)
    for change in changes_for(name, value, document):
        apply(found, change)
    return found


def paths(document: dict[str, Any]) -> set[str]:
    return {field.path for field in draw_planning(Drawing(document, []))}


@pytest.mark.parametrize("way", [UNTIL, LOAD, BEST, FRONT])
@pytest.mark.parametrize("before", ["", UNTIL, LOAD, BEST, FRONT])
def test_every_way_can_be_chosen_from_every_other_and_left_again(before: str, way: str) -> None:
    document = changed(changed(DOCUMENT, "planning:", before), "planning:", way)
    plan_experiment(document)
    assert kind_of_planning(document) == way
    plain = changed(document, "planning:", "")
    plan_experiment(plain)
    assert "search" not in plain and not isinstance(plain.get("repeats"), dict)


def test_an_open_workload_is_searched_by_its_rate() -> None:
    workload = {**DOCUMENT["workload"], "arrival": {"kind": "open", "request_rate": 2.0}}
    document = changed({**DOCUMENT, "workload": workload, "matrix": {}}, "planning:", LOAD)
    assert document["search"]["maximize"] == "workload.arrival.request_rate"
    plan_experiment(document)


def test_a_search_takes_the_axis_that_it_searches_out_of_the_matrix() -> None:
    assert list(changed(DOCUMENT, "planning:", LOAD)["matrix"]) == ["engine.max_num_seqs"]
    assert list(changed(DOCUMENT, "planning:", BEST)["matrix"]) == ["workload.arrival.max_concurrency"]


def test_values_are_set_and_emptied() -> None:
    document = changed(changed(DOCUMENT, "planning:", LOAD), "planned:search.confirm", "5")
    assert document["search"]["confirm"] == 5
    assert "confirm" not in changed(document, "planned:search.confirm", "")["search"]
    until = changed(changed(DOCUMENT, "planning:", UNTIL), "planned:repeats.until.metric", "goodput")
    assert until["repeats"]["until"]["metric"] == "goodput"


def test_each_way_draws_what_it_needs() -> None:
    assert paths(DOCUMENT) == {"search", "repeats"}
    assert {"repeats.until.metric", "repeats.until.max"} <= paths(changed(DOCUMENT, "planning:", UNTIL))
    assert {"search.low", "search.high", "search.confirm"} <= paths(changed(DOCUMENT, "planning:", LOAD))
    drawn = {one.path: one for one in draw_planning(Drawing(changed(DOCUMENT, "planning:", BEST), []))}
    assert drawn["search.space"].state == "text" and drawn["search.optimize"].value == "output_throughput"
