"""The form's design: another one, and a ladder's steps as rows."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from experiments.form.changes import changes_for
from experiments.form.fields import draw_form
from experiments.form.offer import Offer
from experiments.form.parts import Design
from experiments.form.rewrite import apply, rewrite, write
from runners.document import FieldError, parse_text
from runners.matrix import plan_experiment

DOCUMENT: dict[str, Any] = {
    "name": "x",
    "model": "smollm2-135m-instruct",
    "nodes": {"labels": {"kind": "measured"}},
    "workload": {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 8}, "num_requests": 64},
}
STEPS = [
    {"label": "8-bit", "set": {"engine.weights": "int8"}},
    {"label": "larger", "set": {"engine.max_num_seqs": 32}},
]
LADDER = DOCUMENT | {"design": {"kind": "ladder", "steps": STEPS}}


def changed(name: str, value: str, document: dict[str, Any]) -> Any:
    found = copy.deepcopy(document)
    for change in changes_for(name, value, document):
        apply(found, change)
    return found.get("design")


def drawn(document: dict[str, Any], *faults: FieldError) -> Design:
    design = draw_form(document, Offer(), faults).design
    assert design is not None
    return design


@pytest.mark.parametrize("value", ["one_at_a_time", "ladder"])
def test_another_design_takes_the_place_of_every_combination_and_gives_it_back(value: str) -> None:
    said = changed("design:", value, DOCUMENT)
    assert said == (value if value != "ladder" else {"kind": "ladder", "steps": []})
    assert drawn(DOCUMENT | {"design": said}).field.value == value
    assert changed("design:", "", DOCUMENT | {"design": said}) is None


def test_choosing_a_ladder_again_keeps_its_steps() -> None:
    assert changed("design:", "ladder", LADDER)["steps"] == STEPS


def test_a_new_step_has_a_name_of_its_own_and_another_value_than_the_document() -> None:
    one = changed("step-add:", "engine.weights", LADDER)
    assert one["steps"][:2] == STEPS
    assert one["steps"][2]["label"] == "weights" and one["steps"][2]["set"]["engine.weights"] != "bf16"
    two = changed("step-add:", "engine.weights", DOCUMENT | {"design": one})
    assert two["steps"][3]["label"] == "weights 2"
    plan_experiment(DOCUMENT | {"design": one})


@pytest.mark.parametrize(
    ("name", "value", "steps"),
    [
        ("step-label:0", "smaller", [{**STEPS[0], "label": "smaller"}, STEPS[1]]),
        ("step-set:1", "engine.max_num_seqs = 4, engine.prefix_cache=false",
         [STEPS[0], {"label": "larger", "set": {"engine.max_num_seqs": 4, "engine.prefix_cache": False}}]),
        ("step-set:1", "", [STEPS[0]]),
        ("step-set:1", "nonsense", [STEPS[0], {"label": "larger", "set": "nonsense"}]),
        ("step-remove:0", "", [STEPS[1]]),
        ("step-remove:9", "", STEPS),
        ("step-add:", "", STEPS),
    ],
)  # fmt: skip
def test_a_step_is_changed_and_the_others_stay(name: str, value: str, steps: list[Any]) -> None:
    found = changed(name, value, LADDER)
    assert found == {"kind": "ladder", "steps": steps}


def test_steps_are_drawn_as_rows_with_what_is_wrong_with_each() -> None:
    wrong = FieldError("design.steps.1.set.engine.max_num_seqs", "not allowed")
    whole = FieldError("design.steps", "too many")
    design = drawn(LADDER, wrong, whole)
    assert [(step.label, step.values) for step in design.steps] == [
        ("8-bit", "engine.weights = int8"),
        ("larger", "engine.max_num_seqs = 32"),
    ]
    assert design.steps[0].errors == () and design.steps[1].errors == ("engine.max_num_seqs: not allowed",)
    assert design.errors == ("too many",) and design.is_ladder and "engine.weights" in design.addable


@pytest.mark.parametrize(
    "said", [3, [], {"kind": 4}, {"steps": "x"}, {"kind": "ladder"}, {"kind": "ladder", "steps": [1]}]
)
def test_what_is_no_design_is_drawn_all_the_same(said: Any) -> None:
    assert drawn(DOCUMENT | {"design": said}).steps == ()


def test_the_text_keeps_its_comments_and_reads_back() -> None:
    text = "# why\n" + write(LADDER)
    again = rewrite(text, changes_for("step-label:0", "smaller", parse_text(text)))
    assert again.startswith("# why\n")
    assert parse_text(again)["design"]["steps"][0]["label"] == "smaller"
