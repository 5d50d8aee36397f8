"""The form as it is drawn of whole, incomplete and wrong documents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.form.changes import TYPED, changes_for
from experiments.form.fields import Field, Form, Group, draw_form
from experiments.form.offer import Offer
from experiments.form.rewrite import rewrite
from experiments.shipped import FOLDER
from runners.document import FieldError, parse_text
from runners.matrix import plan_experiment

OFFER = Offer(["smollm2-135m-instruct"], ["h100-sxm"], {"kind": ["measured", "modelled"]}, ["local"], ["llama-3-8b"])
SYSTEM = """name: a system
model: {shape: {like: llama-3-8b, layers: 16}}
nodes: {labels: {kind: modelled}}
engine:
  weights: fp8
  prefix_tiers: {host: {capacity_bytes: 1.0e12, bytes_per_s: 50000000000.0}}
  speculation: {kind: draft, model: llama-3-8b, acceptance: 0.8}
placement:
  disaggregate:
    kind: prefill_decode
    prefill: {chip: h100-sxm, count: 2, tensor_parallel: 1}
    decode: {chip: mi300x, count: auto}
    link: {bytes_per_s: 5.0e10}
  router: {policy: kv_aware, overlap_weight: 2.0}
workload:
  kind: synthetic
  arrival: {kind: open, request_rate: 4.0}
  shared_prefix: {groups: 2, prefix_tokens: 64}
  num_requests: 16
matrix:
  engine.weights: [bf16, fp8]
"""
TEXTS = {name: (FOLDER / f"{name}.yaml").read_text() for name in ("demo", "modelled")} | {"a-system": SYSTEM}


def field(form: Form, path: str) -> Field:
    return next(one for one in form.controls if one.path == path)


def drawn(text: str, **more: Any) -> Form:
    return draw_form(parse_text(text), OFFER, **more)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_form_shows_what_an_example_says(text):
    document, form = parse_text(text), drawn(text)
    named = document["model"]
    assert field(form, "model").value == (named if isinstance(named, str) else TYPED)
    assert field(form, "workload.num_requests").value == str(document["workload"]["num_requests"])
    assert {axis.path for axis in form.axes} == set(document["matrix"])
    assert field(form, "engine.weights").state == "compared"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_control_set_to_what_it_shows_changes_nothing(text):
    document = parse_text(text)
    for one in drawn(text).controls:
        if one.value and not one.state and one.name.split(":")[0] not in ("arrival", "length", "end", "optional"):
            assert rewrite(text, changes_for(one.name, one.value, document)) == text, one


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_setting_that_may_be_compared_makes_a_plan_with_the_values_it_starts_from(text):
    document = parse_text(text)
    for path in drawn(text).addable:
        if path != "engine.activations":  # not every choice goes with every value of another axis
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


SPECULATION = "engine.speculation"
POOLS = "placement.disaggregate"


def group(form: Form, title: str) -> Group:
    return next(one for one in form.groups if one.title == title)


def test_what_nobody_has_touched_is_folded_and_what_the_document_says_is_open():
    form = drawn("name: x\nengine: {speculation: {kind: ngram}}\n")
    folded = {one.title: one.touched for one in form.groups if one.id}
    assert folded == {
        "Speculation": True, "Prefix-cache tiers": False, "Placement": False, "Disaggregation": False,
    }  # fmt: skip


def test_a_fault_unfolds_its_group():
    form = drawn("name: x\n", faults=[FieldError("placement.replicas", "too many")])
    assert group(form, "Placement").touched


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("none", set()),
        ("ngram", {"max_draft", "acceptance"}),
        ("draft", {"model", "max_draft", "acceptance"}),
        ("self", {"layers", "max_draft", "acceptance"}),
    ],
)
def test_of_speculation_the_settings_of_its_kind_are_shown(kind: str, shown: set[str]) -> None:
    form = drawn(f"engine: {{speculation: {{kind: {kind}}}}}\n")
    paths = {one.path for one in group(form, "Speculation").fields}
    assert paths == {f"{SPECULATION}.{key}" for key in {"kind", *shown}}


def test_of_disaggregation_the_pools_of_its_kind_are_shown_and_no_layout_of_one_engine():
    form = drawn(SYSTEM)
    paths = {one.path for one in group(form, "Disaggregation").fields}
    assert {f"{POOLS}.prefill.chip", f"{POOLS}.decode.count", f"{POOLS}.link.bytes_per_s", f"{POOLS}.stream"} <= paths
    assert not any(path.startswith((f"{POOLS}.ffn", f"{POOLS}.micro")) for path in paths)
    assert "placement.replicas" not in {one.path for one in group(form, "Placement").fields}
    assert field(form, f"{POOLS}.prefill.count").value == "2"


def test_a_word_for_a_kind_is_that_kind():
    assert field(drawn("placement: {disaggregate: attention_ffn}\n"), f"{POOLS}.kind").value == "attention_ffn"


def test_where_kinds_are_compared_the_settings_of_each_are_shown_and_can_be_compared():
    text = f"{SYSTEM}  placement.disaggregate.kind: [none, prefill_decode]\n"
    form = drawn(text)
    assert field(form, f"{POOLS}.kind").state == "compared"
    assert {"placement.replicas", f"{POOLS}.prefill.count"} <= {one.path for one in form.controls}
    assert {"placement.tensor_parallel", f"{POOLS}.decode.chip"} <= set(form.addable)


def test_what_has_no_effect_is_not_offered_to_compare():
    form = drawn(TEXTS["modelled"])
    assert not {f"{SPECULATION}.max_draft", f"{POOLS}.stream", "placement.router.overlap_weight"} & set(form.addable)
    assert "placement.replicas" not in drawn(SYSTEM).addable


def test_a_typed_shape_shows_what_the_published_one_that_it_is_like_has():
    form = drawn(SYSTEM)
    assert field(form, "model.shape.layers").value == "16"
    assert (field(form, "model.shape.hidden_size").value, field(form, "model.shape.hidden_size").default) == (
        "",
        "4096",
    )
    assert "model.shape.kv_heads" in form.addable
    assert all(not one.path.startswith("model.shape") for one in drawn(TEXTS["demo"]).controls)


keys = st.sampled_from(
    ["placement", "disaggregate", "speculation", "prefill", "shape", "like", "router", "shared_prefix",
     "name", "model", "nodes", "labels", "names", "chip", "engine", "weights", "workload", "arrival", "kind", "dist",
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
    assert len(form.groups) >= 11
    for one in form.controls:
        assert isinstance(one.value, str)
