"""A document's model without weights: published or typed, filled, checked, and named after what it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners import shapes
from runners.document_errors import SpecError
from runners.modelled.shape import ModelShape
from runners.shapes import NamedShape, UnknownShape, resolve, why_not_measurable
from runners.shapes.parameters import count_parameters
from runners.spec import ShapedModel

SMALL = {"layers": 2, "hidden_size": 64, "heads": 4}


def typed(**shape: Any) -> NamedShape:
    return resolve(ShapedModel.model_validate({"shape": shape}))


def test_a_published_shape_is_found_by_its_name() -> None:
    found = resolve("llama-3-8b")
    assert found.name == "llama-3-8b" and found.shape == shapes.get("llama-3-8b").to_mapping()


def test_a_name_that_nothing_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownShape, match="gpt-9"):
        resolve("gpt-9")


def test_what_a_typed_shape_leaves_out_is_as_usual() -> None:
    found = typed(**SMALL)
    assert found.shape["kv_heads"] == 4 and found.shape["head_dim"] == 16 and found.shape["ffn"] == 256
    assert found.shape["vocab_size"] == 32_000 and found.shape["max_model_len"] == 8_192
    assert found.shape["tied_embeddings"] is True and found.shape["experts"] is None


def test_a_typed_shape_is_named_after_its_content() -> None:
    found, again, other = typed(**SMALL), typed(**SMALL, kv_heads=4), typed(**SMALL, kv_heads=2)
    assert (found.name, found.sha256) == (again.name, again.sha256)
    assert found.name == f"shape-{found.sha256[:8]}" and len(found.sha256) == 64
    assert other.name != found.name and other.sha256 != found.sha256


def test_a_changed_published_shape_keeps_the_rest_and_its_name_says_what_it_is_like() -> None:
    found = typed(like="llama-3-8b", hidden_size=4100)
    assert found.name == f"llama-3-8b-{found.sha256[:8]}"
    assert found.shape["ffn"] == 14_336 and found.shape["hidden_size"] == 4100
    assert found.shape["parameters"] == count_parameters(found.shape)


def test_a_published_shape_with_nothing_changed_is_that_shape() -> None:
    assert typed(like="deepseek-v3", layers=61) == resolve("deepseek-v3")


def test_what_all_layers_of_a_published_shape_have_all_layers_of_a_shorter_one_have() -> None:
    found = typed(like="qwen3-30b-a3b", layers=6)
    assert found.shape["layers"] == found.shape["expert_layers"] == 6


def test_a_shorter_hybrid_keeps_state_in_its_recurrent_layers_alone() -> None:
    whole, half = resolve("nvidia-nemotron-nano-9b-v2").shape, typed(like="nvidia-nemotron-nano-9b-v2", layers=30).shape
    assert half["state_elements"] == whole["state_elements"] * (30 - 4) // (56 - 4)
    assert typed(like="nvidia-nemotron-nano-9b-v2", attention_layers=0).shape["state_elements"] is None


def test_a_mixture_can_be_made_dense_and_a_dense_model_a_mixture() -> None:
    dense = typed(like="mixtral-8x7b", experts=0, ffn=14_336).shape
    assert dense["experts"] is None and dense["ffn"] == 14_336
    mixed = typed(**SMALL, experts=8, experts_per_token=2, expert_ffn=128).shape
    assert mixed["expert_layers"] == 2 and mixed["ffn"] == 0


def test_the_frozen_reference_holds_the_whole_shape_and_no_file() -> None:
    ref = typed(**SMALL).ref()
    assert ref.random_weights and ref.entry is None and ref.shape["layers"] == 2


@pytest.mark.parametrize(
    ("shape", "field", "told", "allowed"),
    [
        ({"like": "gpt-9"}, "like", "no published shape 'gpt-9'", shapes.names()),
        ({**SMALL, "kv_heads": 3}, "kv_heads", "3 with 4 heads", "a divisor of heads"),
        ({"like": "llama-3-8b", "heads": 12}, "heads", "kv_heads is 8 with 12 heads, as llama-3-8b", "a divisor"),
        ({**SMALL, "hidden_size": 65}, "head_dim", "65 over 4 heads is no whole number", "the size of a head"),
        ({"like": "deepseek-v3", "layers": 4}, "layers", "expert_layers is 58 of 4 layers", "at most 4"),
        ({**SMALL, "expert_ffn": 64}, "experts", "is needed with expert_ffn", "at least 1"),
        ({**SMALL, "experts": 4, "expert_ffn": 9}, "experts_per_token", "is needed with experts", "at least 1"),
        (
            {**SMALL, "experts": 4, "expert_ffn": 9, "experts_per_token": 5},
            "experts_per_token",
            "experts_per_token is 5",
            "at most 4",
        ),
        ({"like": "mixtral-8x7b", "experts": 0}, "experts", "32 layers are dense", "the width of their MLP"),
        ({**SMALL, "sliding_layers": 1}, "sliding_window", "is needed with sliding_layers", "at least 1"),
        ({**SMALL, "q_latent_dim": 8}, "kv_latent_dim", "is needed with q_latent_dim", "at least 1"),
        ({**SMALL, "kv_latent_dim": 64}, "kv_latent_dim", "kv_latent_dim is 64", "above 64"),
        ({**SMALL, "attention_layers": 3}, "attention_layers", "3 of 2 layers", "at most 2"),
        ({**SMALL, "hidden_size": 10_000_000}, "hidden_size", "ffn is 40000000", "at most 10000000"),
        ({**SMALL, "layers": 10_000, "hidden_size": 1024, "ffn": 10_000_000}, "", "weights", "fewer than 1e+14"),
    ],
)
def test_an_impossible_shape_is_refused_at_the_field_that_makes_it_so(
    shape: dict[str, Any], field: str, told: str, allowed: Any
) -> None:
    with pytest.raises(SpecError) as raised:
        typed(**shape)
    (error,) = raised.value.errors
    assert error.field == f"model.shape.{field}".rstrip(".")
    assert told in error.message
    assert error.allowed == allowed if isinstance(allowed, list) else allowed in str(error.allowed)


@pytest.mark.parametrize("name", shapes.names())
def test_parameters_are_counted_as_the_cost_model_counts_them(name: str) -> None:
    mapping = shapes.get(name).to_mapping()
    assert count_parameters(mapping) == ModelShape.from_mapping(mapping).parameters


SIZES = st.integers(1, 4096)


@given(
    st.fixed_dictionaries(
        {"layers": st.integers(1, 64), "hidden_size": SIZES, "heads": st.sampled_from([1, 2, 3, 8, 64])},
        optional={
            "kv_heads": st.sampled_from([1, 2, 3, 8]), "head_dim": SIZES, "ffn": st.integers(0, 4096),
            "experts": st.integers(0, 9), "experts_per_token": st.integers(0, 9), "expert_ffn": st.integers(0, 999),
            "expert_layers": st.integers(0, 70), "shared_ffn": st.integers(0, 9), "sliding_window": st.integers(0, 99),
            "sliding_layers": st.integers(0, 70), "kv_latent_dim": st.integers(0, 700),
            "q_latent_dim": st.integers(0, 700), "attention_layers": st.integers(0, 70),
        },
    )
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_whatever_is_typed_is_refused_by_field_or_can_be_counted(shape: dict[str, Any]) -> None:
    try:
        found = typed(**shape)
    except SpecError as error:
        assert all(one.field.startswith("model.shape") and one.message for one in error.errors)
        return
    assert ModelShape.from_mapping(found.shape).parameters == found.shape["parameters"]


@pytest.mark.parametrize(
    ("name", "field", "told"),
    [
        ("deepseek-v3", "kv_latent_dim", "latent attention (MLA) runs on modelled nodes only"),
        ("nvidia-nemotron-nano-9b-v2", "attention_layers", "recurrent layers runs on modelled nodes only"),
        ("llama-4-scout", "shared_ffn", "shared experts runs on modelled nodes only"),
    ],
)
def test_what_the_runtime_has_no_decoder_for_is_named(name: str, field: str, told: str) -> None:
    refusal = why_not_measurable(resolve(name).shape)
    assert refusal is not None and refusal.field == field and told in refusal.message


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "gpt-oss-20b", "gemma-3-12b"])
def test_dense_models_mixtures_and_windows_can_be_measured(name: str) -> None:
    assert why_not_measurable(resolve(name).shape) is None


def test_an_odd_head_can_not_be_measured() -> None:
    refusal = why_not_measurable(typed(**SMALL, head_dim=15).shape)
    assert refusal is not None and refusal.field == "head_dim" and refusal.allowed == "an even number"
