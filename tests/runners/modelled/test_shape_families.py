"""Mixtures, latent attention, windows and hybrids, against published sizes and figures worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners import shapes
from runners.modelled.model_shapes import ModelShapes, make_shape
from runners.modelled.shape import ModelShape, ShapeError

DEEPSEEK = ModelShape.from_mapping(shapes.get("deepseek-v3").to_mapping())
MIXTRAL = ModelShape.from_mapping(shapes.get("mixtral-8x7b").to_mapping())
GPT_OSS = ModelShape.from_mapping(shapes.get("gpt-oss-20b").to_mapping())


def test_a_token_of_deepseek_goes_through_37_billion_of_671() -> None:
    assert DEEPSEEK.parameters == pytest.approx(671e9, rel=0.001)
    assert DEEPSEEK.active_weights + DEEPSEEK.head_weights == pytest.approx(37e9, rel=0.02)
    # 61 layers keep a latent of 576 elements, in 2 bytes.
    assert DEEPSEEK.kv_bytes_per_token == 61 * 576 * 2 == 70_272


def test_experts_touched_grow_with_the_batch_and_end_at_all() -> None:
    # One token of Mixtral reaches 2 of 8; two tokens 8 (1 - (3/4)^2) = 3.5 in the mean.
    assert MIXTRAL.experts_touched(1) == pytest.approx(2)
    assert MIXTRAL.experts_touched(2) == pytest.approx(3.5)
    assert MIXTRAL.experts_touched(1000) == pytest.approx(8)


@given(st.integers(1, 4096), st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=40)
def test_the_busiest_chip_holds_between_the_mean_and_all_of_its_experts(tokens: int, chips: int) -> None:
    most = MIXTRAL.experts_touched_most(tokens, chips)
    assert MIXTRAL.experts_touched(tokens) / chips <= most + 1e-9
    assert most <= 8 / chips + 1e-9


def test_a_window_ends_what_a_layer_keeps_and_attends_to() -> None:
    # Half of 24 layers see 128 tokens: 12 x 1000 + 12 x 128 positions of 2 x 8 x 64 elements.
    assert GPT_OSS.kv_elements_held(1000) == 1024 * (12 * 1000 + 12 * 128)
    assert GPT_OSS.attention_flops(999, 1) == 4 * 64 * 64 * (12 * 1000 + 12 * 128)


@given(st.integers(0, 300), st.integers(1, 300), st.integers(1, 299))
@settings(max_examples=60)
def test_attention_under_windows_does_not_depend_on_how_it_is_chunked(start: int, length: int, cut: int) -> None:
    cut = min(cut, length)
    parts = GPT_OSS.attention_flops(start, cut) + GPT_OSS.attention_flops(start + cut, length - cut)
    assert parts == GPT_OSS.attention_flops(start, length)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"experts_per_token": 9}, "experts_per_token"),
        ({"expert_layers": 99}, "expert_layers"),
        ({"expert_ffn": 0}, "experts"),
        ({"sliding_layers": 3, "sliding_window": 0}, "sliding_layers"),
        ({"experts": "8"}, "experts"),
    ],
)
def test_a_mixture_that_does_not_hold_together_is_refused_by_field(change: dict, field: str) -> None:
    with pytest.raises(ShapeError, match=rf"shape\.{field}: "):
        ModelShape.from_mapping(shapes.get("mixtral-8x7b").to_mapping() | change)


@pytest.mark.parametrize(("total", "active"), [(8e9, 8e9), (70e9, 70e9), (120e9, 12e9)])
def test_a_made_shape_has_about_the_size_asked_for(total: float, active: float) -> None:
    assert make_shape(total, active).parameters == pytest.approx(total, rel=0.15)


def test_a_model_of_unknown_shape_and_size_is_refused() -> None:
    known = ModelShapes.load()
    assert known.is_known("gemma-3-27b") and not known.is_known("nobody-1b")
    with pytest.raises(ShapeError, match="nobody-1b"):
        known.get("nobody-1b", None, None)
    assert dataclasses.replace(known.get("nobody-1b", 1.0, 1.0)).layers >= 4
