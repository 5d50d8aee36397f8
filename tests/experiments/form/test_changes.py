"""What each control of the form does to the document."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from experiments.form.changes import TYPED, changes_for
from experiments.form.rewrite import apply, rewrite
from runners.document import parse_text
from runners.dotted import read
from runners.matrix import plan_experiment

DOCUMENT: dict[str, Any] = {
    "name": "x",
    "model": "smollm2-135m-instruct",
    "nodes": {"labels": {"kind": "measured"}},
    "workload": {
        "kind": "synthetic",
        "arrival": {"kind": "closed", "max_concurrency": 8},
        "num_requests": 64,
    },
    "matrix": {"engine.weights": ["bf16", "int8"], "workload.arrival.max_concurrency": [1, 8]},
    "baseline": {"engine.weights": "bf16", "workload.arrival.max_concurrency": 1},
    "exclude": [{"engine.weights": "int8", "workload.arrival.max_concurrency": 8}],
}


def changed(name: str, value: str, document: dict[str, Any] = DOCUMENT) -> dict[str, Any]:
    found = copy.deepcopy(document)
    for change in changes_for(name, value, document):
        apply(found, change)
    return found


@pytest.mark.parametrize(
    ("name", "value", "path", "found"),
    [
        ("set:repeats", "5", "repeats", 5),
        ("set:repeats", "many", "repeats", "many"),
        ("set:repeats", "", "repeats", None),
        ("set:name", "12", "name", "12"),
        ("set:engine.threads", "auto", "engine.threads", "auto"),
        ("set:engine.threads", "4", "engine.threads", 4),
        ("set:engine.prefix_cache", "false", "engine.prefix_cache", False),
        ("set:engine.block_size", "64", "engine.block_size", 64),
        ("set:workload.sampling.temperature", "0.5", "workload.sampling.temperature", 0.5),
        ("nodes:", "kind=modelled", "nodes", {"labels": {"kind": "modelled"}}),
        ("nodes:", "local", "nodes", {"names": ["local"]}),
        ("nodes:", "", "nodes", {}),
        ("tags:", "a, b,, ", "tags", ["a", "b"]),
        ("tags:", " ", "tags", None),
        ("slo:ttft_s", "0.8", "slo.ttft_s", 0.8),
    ],
)
def test_a_control_sets_its_value(name, value, path, found):
    assert read(changed(name, value), path) == found


def test_a_length_that_the_document_leaves_out_gets_its_kind_with_its_number():
    document = changed("set:workload.output_len.tokens", "99")
    assert document["workload"]["output_len"] == {"dist": "fixed", "tokens": 99}
    plan_experiment(document)


@pytest.mark.parametrize("dist", ["fixed", "uniform", "lognormal"])
def test_every_kind_of_length_is_whole_from_the_start(dist):
    document = changed("length:workload.input_len", dist)
    assert document["workload"]["input_len"]["dist"] == dist
    plan_experiment(document)


def test_another_kind_of_arrival_drops_the_axis_over_the_old_ones_key_and_all_that_named_it():
    document = changed("arrival:workload.arrival", "open")
    assert document["workload"]["arrival"] == {"kind": "open", "request_rate": 1.0}
    assert document["matrix"] == {"engine.weights": ["bf16", "int8"]}
    assert document["baseline"] == {"engine.weights": "bf16"}
    assert "exclude" not in document
    plan_experiment(document)


def test_a_time_takes_the_place_of_a_number_of_requests():
    document = changed("end:", "duration_s")
    assert "num_requests" not in document["workload"]
    assert document["workload"]["duration_s"] == 60.0
    plan_experiment(document)


def test_an_objective_binds_a_percentile_or_each_request():
    document = changed("slo:ttft_s", "0.8")
    document = changed("slo:ttft_s.of", "p95", document)
    assert document["slo"] == {"ttft_s": {"p95": 0.8}}
    assert changed("slo:ttft_s", "0.9", document)["slo"] == {"ttft_s": {"p95": 0.9}}
    assert changed("slo:ttft_s.of", "each request", document)["slo"] == {"ttft_s": 0.8}
    assert changed("slo:ttft_s", "", document)["slo"] == {}


def test_what_an_objective_without_seconds_binds_changes_nothing():
    assert changed("slo:tpot_s.of", "p99") == DOCUMENT


def test_an_axis_is_added_with_values_to_start_from():
    assert changed("axis-add:", "engine.kernels")["matrix"]["engine.kernels"] == ["auto", "torch"]
    assert changed("axis-add:", "engine.max_num_seqs")["matrix"]["engine.max_num_seqs"] == [16, 32]
    assert changed("axis-add:", "workload.num_requests")["matrix"]["workload.num_requests"] == [64, 128]
    assert changed("axis-add:", "workload.sampling.temperature")["matrix"]["workload.sampling.temperature"] == [0.0, 1]
    assert changed("axis-add:", "model")["matrix"]["model"] == ["smollm2-135m-instruct"]


def test_an_axis_takes_numbers_words_and_flags():
    assert changed("axis:engine.weights", "bf16, 4, 0.5, true,")["matrix"]["engine.weights"] == ["bf16", 4, 0.5, True]


@pytest.mark.parametrize("name", ["set:repeats", "axis:engine.max_num_seqs"])
@pytest.mark.parametrize("typed", ["1e999", "-1e999", ".inf", ".nan"])
def test_a_number_beyond_all_numbers_stays_as_typed_and_so_do_the_comments(name: str, typed: str) -> None:
    text = "# why\nmatrix: {engine.max_num_seqs: [1, 8]}\n"
    changed = rewrite(text, changes_for(name, typed, parse_text(text)))
    assert changed.startswith("# why\n")
    assert typed in changed


def planned(document: dict[str, Any]) -> dict[str, Any]:
    plan_experiment(document)
    return document


@pytest.mark.parametrize("kind", ["prefill_decode", "attention_ffn"])
def test_every_kind_of_disaggregation_is_whole_from_the_start(kind: str) -> None:
    document = planned(changed("kind:placement.disaggregate", kind, DOCUMENT | {"chip": "mi300x"}))
    pools = [pool for pool in document["placement"]["disaggregate"].values() if isinstance(pool, dict)]
    assert pools == [{"chip": "mi300x", "count": "auto"}] * 2


def test_another_kind_of_disaggregation_takes_the_old_ones_pools_away_and_the_axes_over_them():
    document = changed("kind:placement.disaggregate", "prefill_decode")
    document = changed("axis:placement.disaggregate.prefill.count", "1, 2", document)
    document = planned(changed("kind:placement.disaggregate", "attention_ffn", document))
    assert set(document["placement"]["disaggregate"]) == {"kind", "attention", "ffn"}
    assert document["matrix"] == DOCUMENT["matrix"]
    assert "disaggregate" not in changed("kind:placement.disaggregate", "", document)["placement"]


@pytest.mark.parametrize("kind", ["ngram", "self"])
def test_speculation_is_whole_from_the_start(kind: str) -> None:
    document = planned(changed("kind:engine.speculation", kind))
    assert document["engine"]["speculation"]["acceptance"] == 0.7


def test_speculation_by_a_smaller_model_waits_for_its_name():
    document = changed("kind:engine.speculation", "draft")
    planned(changed("set:engine.speculation.model", "smollm2-135m-instruct", document))


@pytest.mark.parametrize("path", ["workload.shared_prefix", "engine.prefix_tiers.host", "engine.prefix_tiers.remote"])
def test_what_may_be_left_out_comes_whole_and_goes_with_the_axes_over_it(path: str) -> None:
    document = planned(changed(f"optional:{path}", "given"))
    key = next(iter(read(document, path)))
    document = planned(changed("axis-add:", f"{path}.{key}", document))
    document = planned(changed(f"optional:{path}", "", document))
    assert read(document, path) is None
    assert document["matrix"] == DOCUMENT["matrix"]
    assert "prefix_tiers" not in document.get("engine", {})


def test_a_typed_shape_starts_from_the_published_one_that_was_named():
    document = planned(changed("model:", TYPED, DOCUMENT | {"model": "llama-3-8b"}))
    assert document["model"] == {"shape": {"like": "llama-3-8b"}}
    assert changed("axis-add:", "model.shape.kv_heads", document)["matrix"]["model.shape.kv_heads"] == [8, 16]
    planned(changed("model:", TYPED))


def test_a_named_model_takes_the_axes_over_the_typed_shape_away():
    document = changed("model:", TYPED, DOCUMENT | {"model": "llama-3-8b"})
    document = changed("axis:model.shape.layers", "8, 16", document)
    document = planned(changed("model:", "smollm2-135m-instruct", document))
    assert document["matrix"] == DOCUMENT["matrix"]


def test_of_many_choices_an_axis_starts_with_two_and_with_none_that_does_not_go_with_the_rest():
    assert changed("axis-add:", "engine.profile")["matrix"]["engine.profile"] == ["auto", "vllm"]
    assert changed("axis-add:", "placement.disaggregate.kind")["matrix"]["placement.disaggregate.kind"] == ["none"]
    two = changed("axis-add:", "engine.speculation.kind")["matrix"]["engine.speculation.kind"]
    assert two == ["none", "ngram"]


@pytest.mark.parametrize("path", ["engine.nonsense", "placement.router.nonsense"])
def test_an_optional_part_that_there_is_not_is_a_key_error(path: str) -> None:
    with pytest.raises(KeyError):
        changed(f"optional:{path}", "given")
    with pytest.raises(KeyError):
        changed(f"kind:{path}", "none")


def test_a_value_that_goes_takes_the_baseline_and_the_exclusions_of_it_along():
    document = changed("axis:engine.weights", "int8")
    assert document["baseline"] == {"workload.arrival.max_concurrency": 1}
    assert document["exclude"] == DOCUMENT["exclude"]
    plan_experiment(changed("axis:engine.weights", "bf16"))


@pytest.mark.parametrize(("name", "value"), [("axis:engine.weights", " , "), ("axis-remove:engine.weights", "")])
def test_an_axis_without_values_goes(name, value):
    document = changed(name, value)
    assert document["matrix"] == {"workload.arrival.max_concurrency": [1, 8]}
    last = changed("axis-remove:workload.arrival.max_concurrency", "", document)
    assert not {"matrix", "baseline", "exclude"} & last.keys()
    plan_experiment(last)


@pytest.mark.parametrize("name", ["", "set:", "set:engine.nonsense", "nonsense:x", "axis-add"])
def test_a_control_that_there_is_not_is_a_key_error(name):
    with pytest.raises(KeyError):
        changed(name, "1")
