"""FLOPs and bytes of a step, against figures worked out by hand, for dense models, mixtures and sliding windows."""

from __future__ import annotations

from typing import Any

import pytest

from runners import shapes
from runners.events import Step
from runners.modelled.shape import ModelShape
from runners.roofline import Peaks, linear_weights, peaks_of, step_cost, visible_keys

DENSE: dict[str, Any] = {
    "layers": 4,
    "hidden_size": 8,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 4,
    "ffn": 16,
    "vocab_size": 10,
}
MIXTURE = DENSE | {"experts": 6, "experts_per_token": 2, "expert_ffn": 5, "expert_layers": 3}
WINDOWED = DENSE | {"sliding_window": 10, "sliding_layers": 3}
NULLS = dict.fromkeys(("experts", "experts_per_token", "expert_ffn", "expert_layers", "sliding_window"))


def step(prefill: int = 0, decode: int = 0, running: int = 1, slots: int = 0) -> Step:
    return Step(
        index=1,
        start_s=0.0,
        duration_s=1.0,
        prefill_tokens=prefill,
        decode_tokens=decode,
        running=running,
        waiting=0,
        kv_used_blocks=0,
        kv_cached_blocks=0,
        kv_free_blocks=0,
        kv_used_slots=slots,
    )


def test_a_decoded_token_of_a_dense_model() -> None:
    # q, o: 8x8; k, v: 8x4; gate, up, down: 8x16.
    body = 4 * (2 * 64 + 2 * 32 + 3 * 128)
    cost = step_cost(step(decode=1, slots=100), DENSE, "bf16", "bf16")
    assert cost.flops == 2 * body + 2 * 80 + 4 * 2 * 4 * 4 * 100
    assert cost.moved_bytes == 2 * (body + 80) + 2 * 4 * 2 * 4 * (100 + 1)


def test_null_keys_of_a_mixture_and_a_window_mean_a_dense_model() -> None:
    one = step(prefill=9, decode=2, running=3, slots=50)
    assert step_cost(one, DENSE | NULLS, "int8", "bf16") == step_cost(one, DENSE, "int8", "bf16")


def test_a_token_computes_with_its_experts_and_a_step_reads_those_it_reaches() -> None:
    linear = linear_weights(MIXTURE)
    # One dense MLP, three routers of 6 rows, attention in four layers; an expert is 3 x 8x5.
    assert linear.dense == 4 * (2 * 64 + 2 * 32) + 3 * 128 + 3 * 6 * 8
    assert linear.expert == 120
    assert linear.active() == linear.dense + 3 * 2 * 120
    assert linear.touched(1) == pytest.approx(linear.active())
    # Two tokens reach 6 (1 - (4/6)²) = 10/3 of 6 experts.
    assert linear.touched(2) == pytest.approx(linear.dense + 3 * 120 * 10 / 3)
    assert linear.touched(1000) == pytest.approx(linear.dense + 3 * 6 * 120)


def test_layers_with_a_window_show_no_more_than_it() -> None:
    assert visible_keys(WINDOWED, 7) == 4 * 7
    assert visible_keys(WINDOWED, 25) == 25 + 3 * 10
    narrow = step_cost(step(decode=1, slots=25), WINDOWED, "bf16", "bf16")
    wide = step_cost(step(decode=1, slots=25), DENSE, "bf16", "bf16")
    assert wide.flops - narrow.flops == 4 * 2 * 4 * 3 * 15
    assert wide.moved_bytes - narrow.moved_bytes == 2 * 4 * 2 * 3 * 15


LATENT = DENSE | {"kv_latent_dim": 96, "q_latent_dim": 12}


def test_latent_attention_keeps_and_reads_the_latent() -> None:
    one = step_cost(step(decode=1, slots=100), LATENT, "bf16", "bf16")
    # Query 8 -> 12 -> 2 x (4 + 64); latent 8 -> 96, of it 32 -> k and v of 2 x 4; o 8 -> 8.
    body = 4 * (12 * (8 + 136) + 8 * 96 + 32 * 2 * 8 + 64 + 3 * 128)
    assert one.flops == 2 * body + 2 * 80 + 2 * 2 * (2 * 96 - 64) * 4 * 100
    assert one.moved_bytes == 2 * (body + 80) + 2 * 96 * 4 * (100 + 1)
    prompt = step_cost(step(prefill=100, slots=100), LATENT, "bf16", "bf16")
    assert prompt.flops == 100 * 2 * body + 2 * 80 + 2 * 2 * (2 * 4 + 64) * 4 * 100 * 50


def test_layers_without_attention_show_no_keys() -> None:
    hybrid = DENSE | {"attention_layers": 1}
    assert visible_keys(hybrid, 30) == 30
    cost, whole = (step_cost(step(decode=1, slots=30), shape, "bf16", "bf16") for shape in (hybrid, DENSE))
    assert whole.moved_bytes - cost.moved_bytes == 2 * 4 * 2 * 3 * 31


def test_a_shared_expert_is_one_that_every_token_goes_through() -> None:
    assert linear_weights(MIXTURE | {"shared_ffn": 7}).dense - linear_weights(MIXTURE).dense == 3 * 3 * 8 * 7


@pytest.mark.parametrize(("weights", "routed", "dense"), [("fp8", 8.06 / 8, 8.06 / 8), ("nvfp4", 4.5 / 8, 2.0)])
def test_a_narrow_format_shrinks_the_bytes_of_experts_and_what_checkpoints_leave_wide_stays(
    weights: str, routed: float, dense: float
) -> None:
    linear, one = linear_weights(MIXTURE), step(decode=1)
    moved = step_cost(one, MIXTURE, weights, "fp8").moved_bytes
    expected = linear.dense * dense + linear.routed(1) * routed + 2 * linear.head + 4 * 2 * 4 * 1
    assert moved == pytest.approx(expected)


def test_a_cache_of_8_bits_moves_half() -> None:
    wide, narrow = (step_cost(step(decode=1, slots=100), DENSE, "bf16", kv).moved_bytes for kv in ("bf16", "fp8"))
    assert wide - narrow == 4 * 2 * 4 * (100 + 1)


def test_drafts_that_are_checked_are_computed_too() -> None:
    plain, drafted = step(decode=4, running=4, slots=400), step(decode=4, running=4, slots=400)
    drafted = drafted.model_copy(update={"draft_tokens": 8})
    ratio = [step_cost(one, DENSE, "bf16", "bf16").flops for one in (plain, drafted)]
    assert ratio[1] == 3 * ratio[0]


@pytest.mark.parametrize("name", sorted(shapes.names()))
def test_a_published_shape_is_counted_as_the_cost_model_does(name: str) -> None:
    shape = shapes.get(name).to_mapping()
    model, linear = ModelShape.from_mapping(shape), linear_weights(shape)
    assert (linear.dense, linear.active(), linear.head) == (
        model.dense_weights,
        model.active_weights,
        model.head_weights,
    )
    assert linear.touched(17) == pytest.approx(model.dense_weights + model.experts_touched(17) * model.expert_layers
                                               * model.expert_weights)  # fmt: skip
    cost = step_cost(step(decode=1, slots=5000), shape, "bf16", "bf16")
    read = model.kv_elements_held(5000) + model.attending_layers * model.kv_elements_per_layer
    assert cost.moved_bytes == pytest.approx(2 * (linear.touched(1) + linear.head + read))
    assert cost.flops == pytest.approx(model.linear_flops(1, 1) + model.attention_flops(4999, 1))


SYSTEM = {"pools": [
    {"role": "prefill", "chip": "a", "flops_per_s": 1e12, "bytes_per_s": 1e10},
    {"role": "decode", "chip": "a", "flops_per_s": 4e12, "bytes_per_s": 4e10},
]}  # fmt: skip


def test_a_step_is_held_against_the_peaks_of_its_engine() -> None:
    assert peaks_of("prefill-3", {"system": SYSTEM}) == Peaks(1e12, 1e10)
    assert peaks_of("decode-0", {"system": SYSTEM}) == Peaks(4e12, 4e10)
    alone = {"pools": [SYSTEM["pools"][1] | {"role": "serve"}]}
    assert peaks_of(None, {"system": alone, "peaks": {"flops_per_s": 1.0, "bytes_per_s": 1.0}}) == Peaks(4e12, 4e10)
    assert peaks_of(None, {"peaks": {"flops_per_s": 1.0, "bytes_per_s": 2.0}}) == Peaks(1.0, 2.0)
    assert peaks_of(None, {}) is None


def test_unlike_chips_have_no_common_peak() -> None:
    mixed = {"pools": [SYSTEM["pools"][0], SYSTEM["pools"][1] | {"chip": "b"}]}
    assert peaks_of("decode-0", {"system": mixed}) is None
    assert peaks_of(None, {"system": {"pools": [SYSTEM["pools"][0] | {"chip": "a+b"}]}}) is None
