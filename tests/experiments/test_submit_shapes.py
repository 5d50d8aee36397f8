"""Models without weights in a document: published shapes, typed ones, axes of their fields; and models that draft."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import document, ready_node, submit, team
from modelled_node import modelled_node

from experiments.models import Experiment, RegisteredModel
from experiments.preview import preview
from experiments.selectors import models_of
from experiments.services.feasibility import check_feasible
from runners.document import SpecError
from runners.matrix import plan_experiment
from runners.models import REGISTRY
from runners.shapes import resolve
from runners.spec import RunSpec, ShapedModel

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]
TINY = {"layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "vocab_size": 512}


@pytest.fixture(autouse=True)
def node() -> None:
    node = ready_node()
    node.facts = {"memory": {"usable_bytes": 8_000_000_000}}
    node.save(update_fields=["facts"])


def specs(experiment: Experiment) -> list[RunSpec]:
    return [RunSpec.model_validate(run.spec) for run in experiment.runs.order_by("trial__index")]


def refused(**changes: Any) -> dict[str, tuple[str, Any]]:
    with pytest.raises(SpecError) as raised:
        submit(team(), **changes)
    return {error.field: (error.message, error.allowed) for error in raised.value.errors}


def test_a_run_of_a_typed_shape_is_frozen_with_all_of_it() -> None:
    (spec,) = specs(submit(team(), model={"shape": TINY}))
    expected = resolve(ShapedModel.model_validate({"shape": TINY}))
    assert spec.model == expected.ref() and spec.model.random_weights and spec.model.entry is None
    assert spec.model.shape["ffn"] == 256 and spec.model.name == expected.name


def test_a_published_shape_is_a_model_by_its_name() -> None:
    small = {"layers": 1, "like": "llama-3.2-3b"}
    by_name = specs(submit(team(), model="llama-3.2-3b"))[0].model
    assert by_name.random_weights and by_name.name == "llama-3.2-3b"
    assert specs(submit(team(), model={"shape": small}))[0].model.name.startswith("llama-3.2-3b-")


def test_a_registered_model_stands_before_a_shape_of_its_name() -> None:
    entry = next(iter(REGISTRY.values())).model_copy(update={"name": "llama-3.2-3b"})
    RegisteredModel.objects.create(name=entry.name, entry=entry.to_dict())
    (spec,) = specs(submit(team(), model="llama-3.2-3b"))
    assert not spec.model.random_weights and spec.model.sha256 == entry.sha256


def test_fields_of_a_shape_are_axes() -> None:
    made = submit(team(), model={"shape": TINY}, matrix={"model.shape.hidden_size": [64, 128]})
    widths = [(spec.model.shape["hidden_size"], spec.settings["model.shape.hidden_size"]) for spec in specs(made)]
    assert widths == [(64, 64), (128, 128)]
    assert len({spec.model.sha256 for spec in specs(made)}) == 2


def test_an_impossible_value_on_such_an_axis_is_named_there() -> None:
    (told,) = refused(model={"shape": TINY}, matrix={"model.shape.kv_heads": [2, 3]}).items()
    assert told == ("matrix.model.shape.kv_heads", ("kv_heads is 3 with 4 heads", "a divisor of heads"))


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        ({**TINY, "kv_heads": 3}, "model.shape.kv_heads"),
        ({"like": "gpt-9"}, "model.shape.like"),
        ({**TINY, "experts": 4}, "model.shape.experts_per_token"),
    ],
)
def test_a_shape_that_can_not_be_is_refused_at_its_field(shape: dict[str, Any], field: str) -> None:
    assert set(refused(model={"shape": shape})) == {field}


def test_a_text_needs_a_tokenizer_which_a_shape_has_not() -> None:
    workload = {**document()["workload"], "kind": "text"}
    message, allowed = refused(model={"shape": TINY}, workload=workload)["workload.kind"]
    assert "tokenizer" in message and allowed == ["synthetic"]


@pytest.mark.parametrize(
    ("model", "field", "told"),
    [
        ({"shape": {**TINY, "kv_latent_dim": 128}}, "model.shape.kv_latent_dim", "MLA"),
        ({"shape": {**TINY, "attention_layers": 1}}, "model.shape.attention_layers", "recurrent"),
        ("deepseek-v3", "model", "MLA"),
    ],
)
def test_what_the_runtime_has_no_decoder_for_is_refused_on_measured_nodes(model: Any, field: str, told: str) -> None:
    message, allowed = refused(model=model)[field]
    assert told in message and "modelled nodes" in message and "modelled nodes" in str(allowed)


def test_a_shape_too_large_for_every_node_is_refused_with_the_numbers() -> None:
    message, allowed = refused(model="llama-3-70b")["model"]
    assert "llama-3-70b needs at least" in message and allowed


def test_a_model_that_drafts_is_frozen_beside_the_one_that_runs() -> None:
    modelled_node()
    speculation = {"kind": "draft", "model": "llama-3-8b", "acceptance": 0.7}
    experiment = submit(team(), model="llama-3-70b", chip="h100-sxm", engine={"speculation": speculation})
    (spec,) = specs(experiment)
    assert spec.draft is not None and (spec.draft.name, spec.draft.random_weights) == ("llama-3-8b", True)


def test_an_unknown_model_that_drafts_is_refused_at_its_field() -> None:
    faults = refused(engine={"speculation": {"kind": "draft", "model": "gpt-9", "acceptance": 0.7}})
    message, allowed = faults["engine.speculation.model"]
    assert "gpt-9" in message and "llama-3-8b" in str(allowed)


def test_an_experiment_names_its_models_and_says_which_have_random_weights() -> None:
    widths = {"model.shape.hidden_size": [64, 128]}
    named = models_of(submit(team(), model={"shape": TINY}, matrix=widths).pk)
    assert len(named) == 2 and all(name.endswith("(random weights)") for name in named)
    assert models_of(submit(team()).pk) == ["smollm2-135m-instruct"]


def test_nobody_is_told_that_a_shape_must_be_fetched() -> None:
    project = team()
    plan = plan_experiment(document(model={"shape": TINY}))
    found = check_feasible(plan, project)
    assert "model" not in {warning.field for warning in preview(plan, project, found).warnings}
