"""The typed document and the frozen RunSpec."""

from __future__ import annotations

import pytest
from documents import SMALLEST, document
from pydantic import ValidationError

from runners.document import validate_document
from runners.matrix import plan_experiment
from runners.spec import ExperimentSpec, ModelRef, RunSpec


def run_spec() -> RunSpec:
    cell = plan_experiment(SMALLEST).cells[0]
    return RunSpec(
        run_id=1,
        experiment_id=1,
        trial_index=0,
        repeat=0,
        seed=7,
        settings={},
        model=ModelRef(name="m", sha256="0" * 64, shape={"layers": 2}),
        chip_id="any",
        engine=cell.spec.engine,
        placement=cell.spec.placement,
        workload=cell.spec.workload,
        slo=cell.spec.slo,
        cost=cell.spec.cost,
        time_limit_s=cell.spec.budget.max_run_seconds,
        code_revision="test",
    )


def test_a_run_spec_survives_the_database_and_the_wire() -> None:
    spec = run_spec()
    assert RunSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_spec_with_every_default_filled_in_is_the_same_document() -> None:
    spec = validate_document(document({"matrix": {"engine.weights": ["bf16", "int8"]}}))
    assert validate_document(spec.model_dump(mode="json")) == spec


def test_a_spec_can_not_be_changed() -> None:
    spec = validate_document(SMALLEST)
    with pytest.raises(ValidationError):
        spec.name = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        spec.engine.max_num_seqs = 2  # type: ignore[misc]


def test_every_field_but_four_has_a_default() -> None:
    needed = {name for name, field in ExperimentSpec.model_fields.items() if field.is_required()}
    assert needed == {"name", "model", "nodes", "workload"}


@pytest.mark.parametrize("model", [*ExperimentSpec.model_json_schema()["$defs"].values()])
def test_no_part_of_the_document_takes_unknown_keys(model: dict[str, object]) -> None:
    assert model["additionalProperties"] is False
