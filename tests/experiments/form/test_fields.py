"""The form as it is drawn of whole, incomplete and wrong documents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.form.changes import changes_for
from experiments.form.fields import Field, Form, draw_form
from experiments.form.offer import Offer
from experiments.form.rewrite import rewrite
from experiments.pages.new import EXAMPLES
from runners.document import FieldError, parse_text
from runners.matrix import plan_experiment

OFFER = Offer(["smollm2-135m-instruct"], ["h100-sxm"], {"kind": ["measured", "modelled"]}, ["local"])
TEXTS = {path.stem: path.read_text() for path in EXAMPLES.glob("*.yaml")}


def field(form: Form, path: str) -> Field:
    return next(one for one in form.controls if one.path == path)


def drawn(text: str, **more: Any) -> Form:
    return draw_form(parse_text(text), OFFER, **more)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_form_shows_what_an_example_says(text):
    document, form = parse_text(text), drawn(text)
    assert field(form, "model").value == document["model"]
    assert field(form, "workload.num_requests").value == str(document["workload"]["num_requests"])
    assert {axis.path for axis in form.axes} == set(document["matrix"])
    assert field(form, "engine.weights").state == "compared"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_control_set_to_what_it_shows_changes_nothing(text):
    document = parse_text(text)
    for one in drawn(text).controls:
        if one.value and not one.state and one.name.split(":")[0] not in ("arrival", "length", "end"):
            assert rewrite(text, changes_for(one.name, one.value, document)) == text, one


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_setting_that_may_be_compared_makes_a_plan_with_the_values_it_starts_from(text):
    document = parse_text(text)
    for path in drawn(text).addable:
        if path not in ("engine.activations", "workload.kind"):  # not every choice goes with every other setting
            plan_experiment(parse_text(rewrite(text, changes_for("axis-add:", path, document))))


def test_a_default_is_shown_but_not_set():
    one = field(drawn("name: x\n"), "engine.max_num_seqs")
    assert (one.value, one.default) == ("", "16")


def test_a_fault_stands_at_its_field():
    form = drawn(
        "name: x\nrepeats: 0\n", faults=[FieldError("repeats", "too small"), FieldError("matrix.a", "no axis")]
    )
    assert field(form, "repeats").errors == ("too small",)


def test_what_a_control_cannot_show_is_left_to_the_text():
    form = drawn("nodes: {labels: {kind: measured, rack: a}}\nengine: {weights: [1]}\n")
    assert field(form, "nodes").state == "text"
    assert field(form, "engine.weights").state == "text"


def test_a_value_that_is_not_offered_is_shown_all_the_same():
    one = field(drawn("model: gone\nengine: {weights: int3}\n"), "model")
    assert one.value == "gone" and "gone" in {option.value for option in one.options}


def test_of_the_two_ends_of_a_workload_the_one_that_is_there_can_be_compared():
    assert "workload.duration_s" not in drawn(TEXTS["demo"]).addable
    assert "workload.num_requests" in drawn(TEXTS["demo"]).addable


keys = st.sampled_from(
    ["name", "model", "nodes", "labels", "names", "chip", "engine", "weights", "workload", "arrival", "kind", "dist",
     "input_len", "num_requests", "matrix", "engine.weights", "slo", "ttft_s", "p95", "tags", "budget"]
)  # fmt: skip
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=15,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(keys, anything, max_size=6))
def test_whatever_the_document_holds_a_form_is_drawn(document):
    form = draw_form(document, OFFER)
    assert len(form.groups) == 7
    for one in form.controls:
        assert isinstance(one.value, str)
