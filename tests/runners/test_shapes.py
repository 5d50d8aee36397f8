"""Shapes of published models: each counts up to its makers' figure, and each mistake is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners import shapes
from runners.modelled.shape import ModelShape
from runners.shapes import CATALOG, ShapeCatalogError, ShapeRecord, UnknownShape, load_shapes

TEXT = CATALOG.read_text(encoding="utf-8")
KINDS: dict[str, tuple[str, Any]] = {
    "deepseek-v3": ("kv_latent_dim", 576),
    "gpt-oss-120b": ("sliding_layers", 18),
    "mixtral-8x7b": ("experts", 8),
    "qwen3.5-397b-a17b": ("attention_layers", 15),
    "nvidia-nemotron-nano-9b-v2": ("state_elements", 35_389_440),
    "llama-3-8b": ("experts", 0),
}


def test_the_catalog_has_all_shapes_that_published_results_are_joined_on() -> None:
    assert len(shapes.names()) == 32
    assert {"llama-3-70b", "deepseek-v3", "kimi-k2.5", "gpt-oss-20b", "glm-5", "gemma-3-27b"} <= set(shapes.names())


@pytest.mark.parametrize("name", shapes.names())
def test_a_shape_counts_up_to_the_parameters_that_its_makers_give(name: str) -> None:
    record = shapes.get(name)
    tolerance = 0.05 if record.confidence == "guess" else 0.015
    assert record.num_parameters == pytest.approx(record.parameters, rel=tolerance)
    assert record.source and record.confidence in ("high", "medium", "guess")


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_attention_and_mlp_reaches_the_cost_model(name: str) -> None:
    key, value = KINDS[name]
    assert getattr(ModelShape.from_mapping(shapes.get(name).to_mapping()), key) == value


def test_an_unknown_shape_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownShape, match=r"no model shape 'gpt-9'; allowed: .*llama-3-8b") as raised:
        shapes.get("gpt-9")
    assert raised.value.allowed == shapes.names() and not raised.value.retry


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("layers = 32", "layers = 0", "llama-3-8b.layers"),
        ("layers = 32", "layer = 32", "llama-3-8b.layers"),
        ("kv_heads = 8", "kv_heads = 7", "llama-3-8b.kv_heads: 7 with 32 heads is not allowed; allowed: a divisor"),
        ("ffn = 14336\n", "", "llama-3-8b.ffn: null, and 32 layers are dense"),
        ("experts_per_token = 8", "experts_per_token = 800", "mixture.experts_per_token: 800 is not allowed"),
        ("tokens = 128, layers = 18", "tokens = 128, layers = 99", "gpt-oss-120b.window.layers: 99 of 36 layers"),
        ("parameters = 8.03e9", "parameters = 8.03", "llama-3-8b.parameters"),
        ("[llama-3-8b]", "[llama-3-8b", "is not TOML"),
    ],
)
def test_a_mistake_is_named_by_shape_and_field(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in TEXT
    file = tmp_path / "catalog.toml"
    file.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ShapeCatalogError) as raised:
        load_shapes(file)
    assert told in str(raised.value)


def test_a_record_survives_json() -> None:
    record = shapes.get("deepseek-v3")
    assert ShapeRecord.model_validate(record.model_dump(mode="json")) == record
