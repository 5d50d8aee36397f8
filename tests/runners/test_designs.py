"""Designs beside the factorial: one factor at a time, and ladders of techniques."""

from __future__ import annotations

from typing import Any

import pytest
from documents import document

from runners.document import FieldError, SpecError
from runners.matrix import MAX_TRIALS, Plan, plan_experiment

WEIGHTS = "engine.weights"
SEQS = "engine.max_num_seqs"
CACHE = "engine.prefix_cache"
STEPS = [
    {"label": "8-bit weights", "set": {WEIGHTS: "int8"}},
    {"label": "prefix cache", "set": {CACHE: True}},
    {"label": "more at once", "set": {SEQS: 32, "engine.max_num_batched_tokens": 4096}},
]


def plan(**changes: Any) -> Plan:
    return plan_experiment(document({"matrix": {}, "exclude": [], "baseline": {}} | changes))


def ladder(*steps: dict[str, Any], **changes: Any) -> Plan:
    return plan(design={"kind": "ladder", "steps": list(steps)}, **changes)


def errors_of(**changes: Any) -> list[FieldError]:
    with pytest.raises(SpecError) as caught:
        plan(**changes)
    return caught.value.errors


def test_one_at_a_time_changes_one_factor_in_each_trial_after_the_first() -> None:
    made = plan(design="one_at_a_time", matrix={WEIGHTS: ["bf16", "int8"], SEQS: [1, 8, 16]})
    assert [cell.settings for cell in made.cells] == [
        {WEIGHTS: "bf16", SEQS: 1},
        {WEIGHTS: "int8", SEQS: 1},
        {WEIGHTS: "bf16", SEQS: 8},
        {WEIGHTS: "bf16", SEQS: 16},
    ]
    assert [cell.spec.engine.max_num_seqs for cell in made.cells] == [1, 1, 8, 16]


def test_one_at_a_time_starts_from_the_baseline_and_leaves_out_what_is_excluded() -> None:
    made = plan(
        design="one_at_a_time",
        matrix={WEIGHTS: ["bf16", "int8"], SEQS: [1, 8, 16]},
        baseline={SEQS: 8},
        exclude=[{SEQS: 16}],
    )
    assert [tuple(cell.settings.values()) for cell in made.cells] == [("bf16", 8), ("int8", 8), ("bf16", 1)]


def test_the_number_of_trials_is_bounded_as_the_design_counts_them() -> None:
    axes = {f"workload.{key}": list(range(1, 41)) for key in ("num_requests", "warmup.num_requests")}
    assert len(plan(design="one_at_a_time", matrix=axes, repeats=1).cells) == 79
    (error,) = errors_of(matrix=axes)
    assert (error.field, error.allowed) == ("matrix", f"at most {MAX_TRIALS}")


def test_a_ladder_stacks_its_steps_upon_the_document() -> None:
    made = ladder(*STEPS, **{"engine": {"weights": "bf16", "prefix_cache": False, "max_num_seqs": 8}})
    assert [cell.label for cell in made.cells] == ["baseline", "8-bit weights", "prefix cache", "more at once"]
    engines = [cell.spec.engine for cell in made.cells]
    assert [one.weights for one in engines] == ["bf16", "int8", "int8", "int8"]
    assert [one.prefix_cache for one in engines] == [False, False, True, True]
    assert [(one.max_num_seqs, one.max_num_batched_tokens) for one in engines][2:] == [(8, 2048), (32, 4096)]


def test_every_rung_has_the_value_of_all_that_any_step_sets() -> None:
    made = ladder(*STEPS, engine={"prefix_cache": False})
    paths = {WEIGHTS, CACHE, SEQS, "engine.max_num_batched_tokens"}
    assert all(set(cell.settings) == paths for cell in made.cells)
    assert made.cells[0].settings[WEIGHTS] == "bf16" and made.cells[0].settings[CACHE] is False
    assert len({tuple(cell.settings.items()) for cell in made.cells}) == 4


def test_a_matrix_gives_each_of_its_combinations_a_ladder_and_excludes_it_whole() -> None:
    made = ladder(STEPS[0], matrix={SEQS: [1, 8, 16]}, exclude=[{SEQS: 8}], baseline={SEQS: 16})
    assert [(cell.settings[SEQS], cell.label, cell.settings[WEIGHTS]) for cell in made.cells] == [
        (1, "baseline", "bf16"),
        (1, "8-bit weights", "int8"),
        (16, "baseline", "bf16"),
        (16, "8-bit weights", "int8"),
    ]


def test_a_later_step_may_take_back_what_an_earlier_one_set() -> None:
    made = ladder(STEPS[0], {"label": "back", "set": {WEIGHTS: "bf16"}})
    assert [cell.spec.engine.weights for cell in made.cells] == ["bf16", "int8", "bf16"]


@pytest.mark.parametrize(
    ("steps", "field", "said"),
    [
        ([{"label": "a", "set": {"engine.weigths": "int8"}}], "design.steps.0.set.engine.weigths", "unknown key"),
        ([{"label": "a", "set": {WEIGHTS: "int3"}}], f"design.steps.0.set.{WEIGHTS}", "not allowed"),
        ([{"label": "a", "set": {"slo.ttft_s": 1}}], "design.steps.0.set.slo.ttft_s", "can't be set"),
        ([{"label": "a", "set": {}}], "design.steps.0.set", "not allowed"),
        ([{"label": "baseline", "set": {WEIGHTS: "int8"}}], "design.steps.0.label", "two rungs"),
        ([{"label": "a", "set": {WEIGHTS: "int8"}}] * 2, "design.steps.1.label", "two rungs"),
        ([], "design.steps", "not allowed"),
    ],
)
def test_a_wrong_step_is_told_where_it_stands(steps: list[Any], field: str, said: str) -> None:
    errors = errors_of(design={"kind": "ladder", "steps": steps})
    assert [error.field for error in errors] == [field]
    assert said in errors[0].message


def test_a_step_may_not_set_what_the_matrix_sets() -> None:
    (error,) = errors_of(design={"kind": "ladder", "steps": STEPS[:1]}, matrix={WEIGHTS: ["bf16", "int8"]})
    assert error.field == f"design.steps.0.set.{WEIGHTS}"


@pytest.mark.parametrize("design", ["ladder", "half", {"kind": "ladder"}, {"steps": STEPS}, {"kind": "tree"}, 3])
def test_what_is_no_design_is_refused_at_its_field(design: Any) -> None:
    assert all(error.field.startswith("design") for error in errors_of(design=design))
