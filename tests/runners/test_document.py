"""From text to a typed document: what is taken, and that everything else is refused with field, value and allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from documents import SMALLEST, WHOLE_EXAMPLE, document
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.document import (
    MAX_BYTES,
    FieldError,
    SpecError,
    TextError,
    parse_json,
    parse_text,
    validate_document,
)
from runners.matrix import plan_experiment
from runners.spec import ShapedModel


def errors_of(changes: dict[str, Any]) -> dict[str, FieldError]:
    with pytest.raises(SpecError) as caught:
        validate_document(document(changes))
    return {error.field: error for error in caught.value.errors}


def error_of(changes: dict[str, Any]) -> FieldError:
    (error,) = errors_of(changes).values()
    return error


def without_model(changes: dict[str, Any]) -> dict[str, Any]:
    """Changes below `model`, which the smallest document has as a name."""
    return {"model": {}, **changes} if any(path.startswith("model.") for path in changes) else changes


# What is taken


def test_the_smallest_document_is_taken_with_defaults() -> None:
    spec = validate_document(SMALLEST)
    assert (spec.engine.weights, spec.repeats, spec.chip) == ("bf16", 3, "any")


def test_a_whole_number_does_where_a_number_is_asked() -> None:
    assert validate_document(document({"slo.ttft_s": 1})).slo.ttft_s == 1.0


@pytest.mark.parametrize("kind", ["lognormal", "uniform", "fixed"])
def test_each_distribution_of_lengths_is_taken(kind: str) -> None:
    lengths = {
        "lognormal": {"dist": "lognormal", "median_tokens": 220, "sigma": 0.6, "max_tokens": 1500},
        "uniform": {"dist": "uniform", "min_tokens": 32, "max_tokens": 1500},
        "fixed": {"dist": "fixed", "tokens": 1500},
    }
    assert validate_document(document({"workload.input_len": lengths[kind]})).workload.input_len.longest == 1500


POOLS = {"prefill": {"chip": "a"}, "decode": {"chip": "b", "count": 8, "tensor_parallel": 8}}


def test_a_word_stands_for_a_kind_of_disaggregation_that_needs_nothing_else() -> None:
    assert validate_document(document({"placement.disaggregate": "none"})).placement.disaggregate.roles == ()


def test_pools_and_keys_that_a_kind_does_not_use_may_be_there() -> None:
    spec = validate_document(
        document(
            {
                "placement.disaggregate": {"kind": "none", **POOLS},
                "engine.speculation": {"kind": "none", "model": "x", "layers": 4},
            }
        )
    )
    assert spec.placement.chips("any") == ("any",)
    assert spec.placement.is_plain


def test_a_placement_names_each_of_its_chips_once() -> None:
    both = {"kind": "attention_ffn", "attention": {"chip": "a"}, "ffn": {"chip": "b"}, **POOLS}
    assert validate_document(document({"placement.disaggregate": both})).placement.chips("any") == ("a", "b")


def test_acceptance_holds_for_all_positions_or_for_each() -> None:
    one = validate_document(document({"engine.speculation": {"kind": "ngram", "acceptance": 0.6}})).engine.speculation
    each = validate_document(document({"engine.speculation": {"kind": "ngram", "acceptance": [0.8, 0.5]}}))
    assert [one.accepts(0), one.accepts(7)] == [0.6, 0.6]
    assert [each.engine.speculation.accepts(position) for position in (0, 1, 7)] == [0.8, 0.5, 0.5]
    with pytest.raises(ValueError, match="none is given"):
        validate_document(SMALLEST).engine.speculation.accepts(0)


def test_a_shared_prefix_makes_the_longest_prompt_longer() -> None:
    plain = validate_document(SMALLEST).workload
    shared = validate_document(document({"workload.shared_prefix": {"groups": 4, "prefix_tokens": 100}})).workload
    assert (shared.longest_prompt, shared.longest) == (plain.longest_prompt + 100, plain.longest + 100)


def test_a_shape_stands_for_a_model() -> None:
    typed = validate_document(document({"model": {"shape": {"layers": 2, "hidden_size": 64, "heads": 4}}})).model
    changed = validate_document(document({"model": {"shape": {"like": "llama-3-8b", "layers": 8}}})).model
    assert isinstance(typed, ShapedModel) and isinstance(changed, ShapedModel)
    assert (typed.shape.hidden_size, changed.shape.like, changed.shape.heads) == (64, "llama-3-8b", None)


# What is refused, and how it is told


@pytest.mark.parametrize(
    ("path", "value", "allowed"),
    [
        ("engine.weights", "int3", ["bf16", "int8", "fp8", "mxint8", "nvfp4", "mxfp4", "int4", "lns8"]),
        ("engine.kv_cache", "int2", ["bf16", "fp8"]),
        ("engine.speculation.kind", "medusa", ["none", "ngram", "draft", "self"]),
        ("engine.speculation.max_draft", 0, "at least 1"),
        ("engine.speculation.acceptance", 1.5, "at most 1"),
        ("engine.speculation.acceptance", [], "at least 1 value"),
        ("engine.speculation.acceptance", "most", ["a number", "a list"]),
        ("engine.prefix_tiers.host", 4, "a mapping"),
        ("engine.block_size", 9, [8, 16, 32, 64, 128]),
        ("engine.max_num_seqs", 0, "at least 1"),
        ("engine.max_num_seqs", "8", "a whole number"),
        ("engine.max_num_seqs", True, "a whole number"),
        ("engine.max_num_seqs", 8.5, "a whole number"),
        ("engine.prefix_cache", "yes", "true or false"),
        ("engine.threads", "many", ["auto", "a whole number"]),
        ("engine.threads", 0, ["auto", "at least 1"]),
        ("engine", None, "a mapping"),
        ("tags", "chat", "a list"),
        ("name", "", "at least 1 character"),
        ("name", 7, "text"),
        ("retries", 99, "at most 10"),
        ("slo.ttft_s", "fast", ["a number", "a mapping"]),
        ("slo.ttft_s.p95", -1, "above 0"),
        ("slo.ttft_s.p91", 1.0, ["p50", "p90", "p95", "p99"]),
        ("workload.input_len.dist", "zipf", ["fixed", "uniform", "lognormal"]),
        ("model", "Not A Slug", "text that matches ^[a-z0-9][a-z0-9._-]{0,99}$"),
        ("model", 3, ["text", "a mapping"]),
        ("model.shape", "llama", "a mapping"),
        ("model.shape.layers", 10_000_000, "at most 10000"),
        ("placement.replicas", 0, "at least 1"),
        ("placement.tensor_parallel", 0, ["auto", "at least 1"]),
        ("placement.tensor_parallel", "some", ["auto", "a whole number"]),
        ("placement.link.bytes_per_s", 0, "at least 1e+06"),
        ("placement.disaggregate", "both", ["none", "prefill_decode", "attention_ffn"]),
        ("placement.disaggregate.stream", "token", ["layer", "whole"]),
        ("placement.router.policy", "random", ["round_robin", "least_loaded", "kv_aware"]),
        ("workload.shared_prefix", 4, "a mapping"),
        ("cost.usd_per_hour", -1, ["node", "at least 0"]),
    ],
)
def test_a_wrong_value_is_told_with_its_field_and_what_is_allowed(path: str, value: Any, allowed: Any) -> None:
    error = error_of(without_model({path: value}))
    assert (error.field, error.allowed) == (path, allowed)
    assert (json.dumps(value) in error.message) or path.endswith("p91")


def test_an_unknown_key_is_told_with_the_known_ones() -> None:
    error = error_of({"engine.wieghts": "int8"})
    assert (error.field, error.message) == ("engine.wieghts", "unknown key")
    assert {"weights", "max_num_seqs"} <= set(error.allowed)


def test_an_unknown_key_of_a_unions_member_is_told_with_that_members_keys() -> None:
    error = error_of({"workload.arrival": {"kind": "open", "request_rate": 1.0, "users": 3}})
    assert (error.field, error.allowed) == ("workload.arrival.users", ["burstiness", "kind", "request_rate"])


@pytest.mark.parametrize(
    ("changes", "field", "known"),
    [
        ({"model": {"shape": {"like": "x", "layer": 3}}}, "model.shape.layer", "layers"),
        ({"model": {"shap": {"like": "x"}, "shape": {"like": "x"}}}, "model.shap", "shape"),
        ({"placement.disaggregate": {"prefill_decode": {}}}, "placement.disaggregate.prefill_decode", "kind"),
        ({"placement.disaggregate.prefill": {"chip": "a", "tp": 2}}, "placement.disaggregate.prefill.tp", "count"),
        (
            {"engine.prefix_tiers.host": {"capacity_bytes": 1, "bytes_per_s": 1e9, "latency": 1}},
            "engine.prefix_tiers.host.latency",
            "latency_s",
        ),
    ],
)
def test_an_unknown_key_deep_down_is_told_with_the_known_ones(changes: dict[str, Any], field: str, known: str) -> None:
    error = error_of(changes)
    assert (error.field, error.message) == (field, "unknown key")
    assert known in error.allowed


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"workload.shared_prefix": {"groups": 4}}, "workload.shared_prefix.prefix_tokens"),
        ({"engine.prefix_tiers.host": {"capacity_bytes": 1e9}}, "engine.prefix_tiers.host.bytes_per_s"),
        ({"placement.disaggregate.decode": {"count": 4}}, "placement.disaggregate.decode.chip"),
        ({"model": {}}, "model.shape"),
    ],
)
def test_a_key_that_is_missing_deep_down_is_named(changes: dict[str, Any], field: str) -> None:
    error = error_of(changes)
    assert (error.field, error.message) == (field, "this key is required")


def test_an_unknown_key_at_the_top_is_told_with_the_top_keys() -> None:
    error = error_of({"modle": "x"})
    assert error.field == "modle"
    assert "model" in error.allowed


@pytest.mark.parametrize(
    ("left_out", "field"), [("name", "name"), ("model", "model"), ("nodes", "nodes"), ("workload", "workload")]
)
def test_a_missing_key_is_named(left_out: str, field: str) -> None:
    with pytest.raises(SpecError) as caught:
        validate_document({key: value for key, value in SMALLEST.items() if key != left_out})
    assert [(error.field, error.message) for error in caught.value.errors] == [(field, "this key is required")]


def test_the_key_that_says_which_kind_is_named_when_it_is_missing() -> None:
    assert error_of({"workload.arrival": {"max_concurrency": 2}}).field == "workload.arrival.kind"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"engine.activations": "int8"}, "engine.activations"),
        ({"engine.max_num_seqs": 64, "engine.max_num_batched_tokens": 32}, "engine.max_num_batched_tokens"),
        ({"workload.duration_s": 10.0}, "workload.num_requests"),
        (
            {"workload.input_len": {"dist": "uniform", "min_tokens": 9, "max_tokens": 3}},
            "workload.input_len.min_tokens",
        ),
        (
            {"engine.scheduler.chunked_prefill": False, "workload.input_len": {"dist": "fixed", "tokens": 4000}},
            "engine.max_num_batched_tokens",
        ),
        (
            {
                "engine.scheduler.chunked_prefill": False,
                "workload.shared_prefix": {"groups": 1, "prefix_tokens": 4000},
            },
            "engine.max_num_batched_tokens",
        ),
        ({"engine.speculation": {"kind": "draft"}}, "engine.speculation.model"),
        ({"engine.speculation": {"kind": "self"}}, "engine.speculation.layers"),
        ({"placement.disaggregate": "prefill_decode"}, "placement.disaggregate.prefill"),
        (
            {"placement.disaggregate": {"kind": "prefill_decode", "prefill": {"chip": "a"}}},
            "placement.disaggregate.decode",
        ),
        (
            {"placement.disaggregate": {"kind": "attention_ffn", "attention": {"chip": "a"}, "prefill": {"chip": "a"}}},
            "placement.disaggregate.ffn",
        ),
        ({"model": {"shape": {"layers": 2, "heads": 2}}}, "model.shape.hidden_size"),
        ({"workload.output_len": {"dist": "fixed", "tokens": 200_000}}, "workload.output_len"),
        ({"workload.arrival": {"kind": "open", "request_rate": 1e-9}}, "workload.arrival.request_rate"),
        (
            {"workload.arrival": {"kind": "open", "request_rate": 1, "burstiness": 1e-6}},
            "workload.arrival.burstiness",
        ),
        ({"workload.arrival": {"kind": "open", "request_rate": 5e-324}}, "workload.arrival.request_rate"),
        (
            {
                "workload.arrival": {"kind": "open", "request_rate": 10_000},
                "workload.num_requests": None,
                "workload.duration_s": 86_400.0,
            },
            "workload.arrival.request_rate",
        ),
    ],
)
def test_an_impossible_combination_is_told(changes: dict[str, Any], field: str) -> None:
    error = error_of(changes)
    assert error.field == field
    assert error.allowed


def test_labels_and_names_together_are_refused() -> None:
    assert "not both" in error_of({"nodes": {"labels": {"a": "b"}, "names": ["x"]}}).message


def test_every_fault_is_told_at_once() -> None:
    found = errors_of({"engine.weights": "int3", "retries": -1, "nonsense": 1, "workload.kind": 5})
    assert set(found) == {"engine.weights", "retries", "nonsense", "workload.kind"}


# Parts of a later version


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"engine.kernels": "native"}, "engine.kernels"),
        ({"engine.weights": "q4_0"}, "engine.weights"),
        ({"engine.kv_cache": "int4"}, "engine.kv_cache"),
        ({"engine.activations": "int16"}, "engine.activations"),
        ({"engine.scheduler.itl_target_s": 0.05}, "engine.scheduler.itl_target_s"),
    ],
)
def test_a_part_of_a_later_version_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    error = error_of(changes)
    assert error.field == field
    assert error.message.endswith("is not yet supported")


def test_the_whole_published_example_is_taken() -> None:
    assert len(plan_experiment(parse_text(WHOLE_EXAMPLE)).runs) == (3 * 4 - 1) * 3


# Text


def test_yaml_and_json_of_one_document_are_the_same() -> None:
    assert parse_text(json.dumps(SMALLEST)) == parse_json(json.dumps(SMALLEST)) == SMALLEST


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", "on"), ("yes", "yes"), ("2026-11-30", "2026-11-30"), ("1:30", "1:30"), ("010", 10), ("1e3", 1000.0),
     ("true", True), ("~", None), ("", None), ("0x10", "0x10"), (".5", 0.5), ("1_000", "1_000"), ("'8'", "8")],
)  # fmt: skip
def test_plain_yaml_means_what_json_would(text: str, value: Any) -> None:
    (found,) = parse_text(f"key: {text}").values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: !!python/object/apply:os.system [ls]", "tags are not allowed"),
        ("a: !thing 1", "tags are not allowed"),
        ("a: &x [1]\nb: *x", "aliases are not allowed"),
        ("a: 1\na: 2", "given twice"),
        ("1: 2", "is not text"),
        ("? [a]\n: 1", "is not text"),
        ("- a", "must be a mapping"),
        ("just words", "must be a mapping"),
        ("", "must be a mapping"),
        ("[" * 50 + "]" * 50, "nested too deep"),
    ],
)
def test_yaml_that_is_more_than_plain_data_is_refused(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=told) as caught:
        parse_text(text)
    assert not isinstance(caught.value, TextError)


@pytest.mark.parametrize("text", ["a: [1", "a: 'x", "\ta: 1", "a: b: c", "%", "a: \x01", "- - :\n a"])
def test_text_that_is_no_yaml_is_told_with_its_place(text: str) -> None:
    with pytest.raises(TextError) as caught:
        parse_text(text)
    assert caught.value.errors[0].message


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}', '{"a":1,"a":2}', "{} {}"])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(TextError, match="not valid JSON"):
        parse_json(text)


@pytest.mark.parametrize("parse", [parse_text, parse_json])
def test_a_text_past_the_limit_is_refused(parse: Any) -> None:
    with pytest.raises(SpecError, match="too large"):
        parse('{"name": "' + "x" * MAX_BYTES + '"}')


@pytest.mark.parametrize(
    "value",
    ["a\x00b", "a\ud800b", float("inf"), float("nan"), 10**30, {"b\x00": 1}, {1: 2}, {1, 2}, b"bytes", object()],
)
def test_what_the_database_could_not_hold_is_refused(value: Any) -> None:
    with pytest.raises(SpecError):
        validate_document(document({"question": value}))
    with pytest.raises(SpecError):
        plan_experiment(document({"matrix": {"engine.weights": [value]}}))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 30_000,
        "{a: " * 10_000,
        "a: " * 20_000,
        "- " * 30_000,
        "? " * 30_000,
        "key: " + "1" * 60_000,
        "key: 1e" + "9" * 60_000,
        "key: " + ":1" * 30_000,
        "\n".join(f"k{i}: &a{i} x" for i in range(5_000)),
        "key: |\n" + " x\n" * 20_000,
        "key: '" + "\n" * 60_000 + "'",
        "[" + "a," * 30_000 + "]",
        "{" + ",".join(f"k{i}: " for i in range(6_000)) + "}",
        "#" * 60_000,
        '"' + "\\u0041" * 10_000 + '"',
    ],
)
@pytest.mark.timeout(60)  # a guard against quadratic work, which takes minutes on 64 KiB
def test_hostile_text_is_judged_without_hanging(text: str) -> None:
    with pytest.raises(SpecError):
        validate_document(parse_text(text))


# Anything at all

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
)
paths = st.sampled_from(
    ["name", "tags", "model", "nodes", "nodes.labels", "chip", "engine", "engine.weights", "engine.threads",
     "engine.scheduler", "engine.speculation", "engine.speculation.acceptance", "engine.prefix_tiers.host",
     "model.shape", "placement", "placement.disaggregate", "placement.disaggregate.prefill",
     "workload", "workload.shared_prefix", "workload.arrival", "workload.input_len",
     "workload.classes", "slo", "slo.ttft_s", "cost", "matrix", "exclude", "baseline", "repeats", "budget", "seed"]
)  # fmt: skip


@given(st.text(max_size=400))
def test_any_text_gives_a_document_or_a_spec_error(text: str) -> None:
    for parse in (parse_text, parse_json):
        try:
            plan_experiment(parse(text))
        except SpecError as error:
            assert error.errors


@given(st.dictionaries(paths, anything, min_size=1, max_size=4))
@settings(max_examples=300)
def test_any_change_gives_a_document_or_a_spec_error(changes: dict[str, Any]) -> None:
    made = document()
    for path, value in changes.items():
        *parents, leaf = path.split(".")
        here: Any = made
        for part in parents:
            here = here.setdefault(part, {}) if isinstance(here, dict) else {}
        if isinstance(here, dict):
            here[leaf] = value
    try:
        plan_experiment(made)
    except SpecError as error:
        assert error.errors
        json.dumps([one.as_dict() for one in error.errors])


@given(anything)
def test_any_value_as_the_document_gives_a_spec_error(value: Any) -> None:
    with pytest.raises(SpecError):
        plan_experiment(value if isinstance(value, dict) else {"name": value})
