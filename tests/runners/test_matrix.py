"""From a document to its trials and the order of its runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from documents import document
from hypothesis import given
from hypothesis import strategies as st

from runners.document import FieldError, SpecError
from runners.matrix import MAX_TRIALS, Plan, plan_experiment
from runners.spec import ShapedModel

WEIGHTS = {"engine.weights": ["bf16", "int8"]}
SEQS = {"engine.max_num_seqs": [1, 8, 16]}


def plan(**changes: Any) -> Plan:
    return plan_experiment(document(changes))


def errors_of(**changes: Any) -> dict[str, FieldError]:
    with pytest.raises(SpecError) as caught:
        plan(**changes)
    return {error.field: error for error in caught.value.errors}


# Trials


def test_without_a_matrix_there_is_one_trial() -> None:
    (cell,) = plan().cells
    assert cell.settings == {}


def test_every_combination_is_a_trial_with_its_settings_applied() -> None:
    made = plan(matrix=WEIGHTS | SEQS)
    assert len(made.cells) == 6
    assert [cell.index for cell in made.cells] == list(range(6))
    for cell in made.cells:
        assert cell.spec.engine.weights == cell.settings["engine.weights"]
        assert cell.spec.engine.max_num_seqs == cell.settings["engine.max_num_seqs"]
        assert cell.spec.matrix == {}


def test_an_excluded_combination_is_no_trial() -> None:
    made = plan(matrix=WEIGHTS | SEQS, exclude=[{"engine.weights": "int8", "engine.max_num_seqs": 1}])
    assert {"engine.weights": "int8", "engine.max_num_seqs": 1} not in [cell.settings for cell in made.cells]
    assert len(made.cells) == 5


def test_an_exclusion_by_one_axis_takes_all_of_its_combinations() -> None:
    made = plan(matrix=WEIGHTS | SEQS, exclude=[{"engine.weights": "int8"}])
    assert {cell.settings["engine.weights"] for cell in made.cells} == {"bf16"}


def test_model_and_chip_may_be_axes_and_then_be_left_out_of_the_document() -> None:
    made = document({"matrix": {"model": ["a", "b"], "chip": ["x", "y"]}})
    del made["model"]
    assert [(cell.spec.model, cell.spec.chip) for cell in plan_experiment(made).cells] == [
        ("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"),
    ]  # fmt: skip


SHAPE = {"shape": {"like": "llama-3-8b"}}


def test_a_field_of_a_typed_shape_may_be_an_axis() -> None:
    made = plan(model=SHAPE, matrix={"model.shape.hidden_size": [4096, 4100], "model.shape.layers": [16]})
    models = [cell.spec.model for cell in made.cells]
    assert all(isinstance(model, ShapedModel) and model.shape.layers == 16 for model in models)
    assert [model.shape.hidden_size for model in models if isinstance(model, ShapedModel)] == [4096, 4100]


def test_kinds_of_placement_and_speculation_may_be_axes() -> None:
    pools = {"prefill": {"chip": "a"}, "decode": {"chip": "b"}}
    made = plan(
        matrix={
            "placement.disaggregate.kind": ["none", "prefill_decode"],
            "engine.speculation.kind": ["none", "ngram"],
        },
        **{"placement.disaggregate": pools},
    )
    assert [cell.spec.placement.chips("c") for cell in made.cells] == [("c",), ("c",), ("a", "b"), ("a", "b")]
    assert {cell.spec.engine.speculation.kind for cell in made.cells} == {"none", "ngram"}


def test_a_kind_among_the_values_that_lacks_its_keys_is_told() -> None:
    (error,) = errors_of(matrix={"engine.speculation.kind": ["none", "draft"]}).values()
    assert error.field == "engine.speculation.model"
    assert "with engine.speculation.kind = draft" in error.message


def test_a_chip_of_a_pool_may_be_an_axis() -> None:
    made = plan(
        matrix={"placement.disaggregate.decode.chip": ["b", "c"]},
        **{"placement.disaggregate": {"kind": "prefill_decode", "prefill": {"chip": "a"}, "decode": {"chip": "b"}}},
    )
    assert [cell.spec.placement.chips("any") for cell in made.cells] == [("a", "b"), ("a", "c")]


def test_true_and_one_are_two_values() -> None:
    assert set(errors_of(matrix={"engine.prefix_cache": [True, 1]})) == {"matrix.engine.prefix_cache"}


# What is refused


def test_a_product_past_the_limit_is_refused_without_being_built() -> None:
    values = list(range(1, 101))
    axes = {f"engine.axis{i}": values for i in range(10)}
    assert errors_of(matrix=axes)["matrix"].allowed == f"at most {MAX_TRIALS}"


def test_more_runs_than_the_budget_are_refused() -> None:
    error = errors_of(matrix=SEQS, repeats=4, budget={"max_runs": 11})["matrix"]
    assert error.message == "3 trials × 4 repeats are 12 runs"
    assert plan(matrix=SEQS, repeats=4, budget={"max_runs": 12}).runs


def test_a_bad_value_of_an_axis_is_told_at_the_axis() -> None:
    error = errors_of(matrix={"engine.weights": ["bf16", "int3"]})["matrix.engine.weights"]
    assert error.message == '"int3" is not allowed'
    assert {"bf16", "int8", "nvfp4"} <= set(error.allowed)


def test_bad_values_are_told_beside_the_documents_other_faults() -> None:
    found = errors_of(matrix={"engine.weights": ["int3"], "engine.block_size": [7]}, retries=-1)
    assert set(found) == {"matrix.engine.weights", "matrix.engine.block_size", "retries"}


def test_an_unknown_path_is_told_at_the_axis() -> None:
    assert errors_of(matrix={"engine.wieghts": ["bf16"]})["matrix.engine.wieghts"].message == "unknown key"


def test_a_model_by_its_name_has_no_shape_to_vary() -> None:
    error = errors_of(matrix={"model.shape.layers": [2, 4]})["matrix.model.shape.layers"]
    assert "has no shape to vary" in error.message


def test_a_bad_value_of_a_shapes_field_is_told_at_its_axis() -> None:
    error = errors_of(model=SHAPE, matrix={"model.shape.layers": [2, 0], "model.shape.lairs": [1]})
    assert error["matrix.model.shape.layers"].allowed == "at least 1"
    assert error["matrix.model.shape.lairs"].message == "unknown key"


@pytest.mark.parametrize(
    "path",
    [
        "name",
        "repeats",
        "engine",
        "model.name",
        "budget.max_runs",
        "",
        "nodes.labels",
        "model.shape",
        "placement",
        "chip.x",
    ],
)
def test_a_path_that_is_no_axis_is_refused(path: str) -> None:
    assert errors_of(matrix={path: ["a"]})[f"matrix.{path}".rstrip(".") if path else "matrix."].message


def test_a_path_through_a_value_is_refused() -> None:
    (error,) = errors_of(matrix={"engine.weights.bits": [4]}, **{"engine.weights": "bf16"}).values()
    assert "holds no keys" in error.message


def test_an_impossible_combination_is_told_with_the_values_that_make_it() -> None:
    matrix = {"engine.max_num_seqs": [1, 64], "engine.max_num_batched_tokens": [32, 2048]}
    (error,) = errors_of(matrix=matrix).values()
    assert error.field == "matrix.engine.max_num_batched_tokens"
    assert "64" in error.message


def test_combinations_may_be_possible_only_together() -> None:
    matrix = {"engine.weights": ["bf16", "int8"], "engine.activations": ["auto", "int8"]}
    made = plan(matrix=matrix, exclude=[{"engine.weights": "bf16", "engine.activations": "int8"}])
    assert len(made.cells) == 3


@pytest.mark.parametrize("part", ["exclude", "baseline"])
@pytest.mark.parametrize(
    ("rule", "path"), [({"engine.kernels": "auto"}, "engine.kernels"), ({"engine.weights": "int4"}, "engine.weights")]
)
def test_a_rule_about_what_is_not_in_the_matrix_is_refused(part: str, rule: dict[str, str], path: str) -> None:
    value: Any = [rule] if part == "exclude" else rule
    where = f"exclude.0.{path}" if part == "exclude" else f"baseline.{path}"
    assert errors_of(matrix=WEIGHTS, **{part: value})[where].allowed


def test_an_empty_exclusion_is_refused() -> None:
    assert "every trial" in errors_of(matrix=WEIGHTS, exclude=[{}])["exclude.0"].message


def test_excluding_everything_is_refused() -> None:
    rules = [{"engine.weights": "bf16"}, {"engine.weights": "int8"}]
    assert "excluded" in errors_of(matrix=WEIGHTS, exclude=rules)["exclude"].message


def test_a_baseline_that_is_excluded_is_refused() -> None:
    rule = {"engine.weights": "int8"}
    assert errors_of(matrix=WEIGHTS, exclude=[rule], baseline=rule)["baseline"].message


# The order of runs

axes = st.dictionaries(
    st.sampled_from(["engine.max_num_seqs", "engine.max_num_batched_tokens", "workload.arrival.max_concurrency"]),
    st.lists(st.integers(16, 1024), min_size=1, max_size=4, unique=True),
    max_size=2,
).filter(lambda chosen: len(chosen) < 2 or "engine.max_num_seqs" not in chosen)


@given(axes, st.integers(1, 5), st.integers(0, 2**63 - 1))
def test_every_repeat_runs_every_trial_once_before_the_next_begins(
    matrix: dict[str, Any], repeats: int, seed: int
) -> None:
    made = plan(matrix=matrix, repeats=repeats, seed=seed, **{"engine.max_num_seqs": 1})
    assert [run.position for run in made.runs] == list(range(len(made.cells) * repeats))
    assert [run.repeat for run in made.runs] == sorted(run.repeat for run in made.runs)
    assert set(Counter((run.trial_index, run.repeat) for run in made.runs).values()) == {1}
    assert {run.trial_index for run in made.runs} == set(range(len(made.cells)))


def test_the_same_document_gives_the_same_plan() -> None:
    assert plan(matrix=SEQS, seed=7) == plan(matrix=SEQS, seed=7)


def test_another_seed_gives_another_order_and_other_requests() -> None:
    one, other = plan(matrix=SEQS, repeats=8, seed=1).runs, plan(matrix=SEQS, repeats=8, seed=2).runs
    assert [run.trial_index for run in one] != [run.trial_index for run in other]
    assert [run.seed for run in one] != [run.seed for run in other]


def test_trials_of_one_repeat_meet_the_same_requests_and_repeats_differ() -> None:
    seeds: dict[int, set[int]] = {}
    for run in plan(matrix=SEQS, repeats=4).runs:
        seeds.setdefault(run.repeat, set()).add(run.seed)
    assert all(len(of_repeat) == 1 for of_repeat in seeds.values())
    assert len(set.union(*seeds.values())) == 4


def test_the_order_within_repeats_varies() -> None:
    made = plan(matrix={"engine.max_num_seqs": list(range(1, 9))}, repeats=4)
    orders = {tuple(run.trial_index for run in made.runs if run.repeat == repeat) for repeat in range(4)}
    assert len(orders) > 1
