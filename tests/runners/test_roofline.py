"""FLOPs and bytes of a step, against figures worked out by hand, for dense models, mixtures and sliding windows."""

from __future__ import annotations

from typing import Any

import pytest

from runners.events import Step
from runners.roofline import linear_weights, step_cost, visible_keys

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
