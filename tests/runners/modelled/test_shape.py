"""Counts of a model's shape, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from runners import models
from runners.modelled.shape import ModelShape, ShapeError

LLAMA_3_8B: dict[str, Any] = {
    "layers": 32,
    "hidden_size": 4096,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "ffn": 14_336,
    "vocab_size": 128_256,
    "max_model_len": 8192,
    "tied_embeddings": False,
}
SMOLLM2 = dict(models.get("smollm2-135m-instruct").shape)


def test_parameters_are_the_published_ones() -> None:
    assert ModelShape.from_mapping(SMOLLM2).parameters == 134_515_008
    assert ModelShape.from_mapping(LLAMA_3_8B).parameters == 8_030_261_248


def test_one_decoded_token_of_smollm2_costs_what_hand_computation_says() -> None:
    shape = ModelShape.from_mapping(SMOLLM2)
    # q, o: 576x576 each; k, v: 576x192 each; gate, up, down: 576x1536 each; 30 layers; head: 576x49152.
    body = 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536)
    assert body == 106_168_320
    assert shape.linear_flops(1, 1) == 2 * (106_168_320 + 28_311_552) == 268_959_744
    # The token at position 99 attends to 100 keys: 4 FLOPs x 576 dimensions x 100 keys x 30 layers.
    assert shape.attention_flops(99, 1) == 4 * 576 * 100 * 30 == 6_912_000
    assert shape.kv_bytes_per_token == 2 * 30 * 192 * 2 == 23_040


def test_a_prompt_of_llama_3_8b_costs_what_hand_computation_says() -> None:
    shape = ModelShape.from_mapping(LLAMA_3_8B)
    # q, o: 4096x4096; k, v: 4096x1024; gate, up, down: 4096x14336; 32 layers; head: 4096x128256.
    body = 32 * (2 * 16_777_216 + 2 * 4_194_304 + 3 * 58_720_256)
    assert body == 6_979_321_856
    assert shape.linear_flops(1000, 1) == 2 * (6_979_321_856 * 1000 + 525_336_576)
    # 1 + 2 + … + 1000 = 500,500 keys of 4096 dimensions in 32 layers.
    assert shape.attention_flops(0, 1000) == 4 * 4096 * 500_500 * 32 == 262_406_144_000
    assert shape.kv_bytes_per_token == 131_072


@pytest.mark.parametrize("cut", [1, 7, 500, 999])
def test_attention_of_a_prompt_does_not_depend_on_how_it_is_chunked(cut: int) -> None:
    shape = ModelShape.from_mapping(LLAMA_3_8B)
    assert shape.attention_flops(0, cut) + shape.attention_flops(cut, 1000 - cut) == shape.attention_flops(0, 1000)


@pytest.mark.parametrize(
    ("field", "value"),
    [("layers", 0), ("heads", -3), ("ffn", "1536"), ("vocab_size", None), ("layers", True), ("tied_embeddings", 1)],
)
def test_a_wrong_field_is_named_with_what_is_allowed(field: str, value: object) -> None:
    with pytest.raises(ShapeError, match=rf"shape\.{field}: .* is not allowed; allowed:"):
        ModelShape.from_mapping({**SMOLLM2, field: value})


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ShapeError, match=r"shape\.kv_heads"):
        ModelShape.from_mapping({k: v for k, v in SMOLLM2.items() if k != "kv_heads"})
