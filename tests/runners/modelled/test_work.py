"""A step's work on one chip and its price, against figures worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from runners import shapes
from runners.modelled.formats import FORMATS
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.work import Counts, Speeds, Splitter, price, stack, tiles

LLAMA = ModelShape.from_mapping(shapes.get("llama-3-70b").to_mapping())
DEEPSEEK = ModelShape.from_mapping(shapes.get("deepseek-v3").to_mapping())
DECODE = Counts(tokens=32, sampled=32, sequences=32, kv_elements=32e6, attention_flops=1e9)
NOTHING = {
    item.name: 0.0 for item in dataclasses.fields(Speeds) if item.name.endswith("_s") and "_per_" not in item.name
}
FAST = Speeds(**{item.name: 1e30 for item in dataclasses.fields(Speeds)} | NOTHING | {"knee": 50.0})  # type: ignore[arg-type]


def test_eight_chips_hold_an_eighth_of_the_weights_each() -> None:
    alone, eight = (Splitter(LLAMA, FORMATS["fp8"], Parallel(tp=tp)) for tp in (1, 8))
    assert eight.resident_bytes() == pytest.approx(alone.resident_bytes() / 8)
    assert eight.split(DECODE).dense_bytes == pytest.approx(alone.split(DECODE).dense_bytes / 8)
    # Eight KV heads go to eight chips; sixteen chips hold each twice.
    assert eight.split(DECODE).kv_bytes == alone.split(DECODE).kv_bytes / 8
    assert Splitter(LLAMA, FORMATS["fp8"], Parallel(tp=16)).split(DECODE).kv_bytes == eight.split(DECODE).kv_bytes


def test_a_latent_cache_lies_whole_on_every_chip() -> None:
    alone, eight = (Splitter(DEEPSEEK, FORMATS["fp8"], Parallel(tp=tp)).split(DECODE) for tp in (1, 8))
    assert alone.kv_bytes == eight.kv_bytes


def test_bandwidth_alone_times_the_bytes() -> None:
    work = Splitter(LLAMA, FORMATS["bf16"], Parallel()).split(DECODE)
    parts = price(work, dataclasses.replace(FAST, bytes_per_s=1e12))
    weights = 2 * (LLAMA.body_weights + LLAMA.head_weights) + 32 * LLAMA.hidden_size * 2
    assert parts.duration_s == pytest.approx(weights / 1e12)


def test_a_ring_moves_twice_the_message_less_a_share_and_waits_for_each_layer_twice() -> None:
    work = Splitter(LLAMA, FORMATS["bf16"], Parallel(tp=4)).split(DECODE)
    parts = price(work, dataclasses.replace(FAST, link_bytes_per_s=1e9, link_latency_s=1e-5))
    message = 32 * 8192 * 2
    assert parts.link_s == pytest.approx(160 * (1e-5 + 2 * 3 / 4 * message / 1e9))


def test_experts_on_other_chips_are_sent_tokens_and_send_them_back() -> None:
    spread = Splitter(DEEPSEEK, FORMATS["fp8"], Parallel(dp=8, ep=8)).split(DECODE)
    together = Splitter(DEEPSEEK, FORMATS["fp8"], Parallel(tp=8)).split(DECODE)
    assert (spread.exchanges, together.exchanges) == (2 * 58, 0)
    assert spread.reduces == 0 and together.reduces == 2 * 61


def test_overheads_are_counted_per_step_layer_and_sequence() -> None:
    work = Splitter(LLAMA, FORMATS["bf16"], Parallel()).split(DECODE)
    slow = dataclasses.replace(FAST, step_s=1.0, layer_s=0.01, sequence_s=0.001)
    assert price(work, slow).overhead_s == pytest.approx(1.0 + 80 * 0.01 + 32 * 0.001)


def test_whole_tiles_are_computed() -> None:
    assert tiles(129, 128) == 256 and tiles(128, 128) == 128
    assert list(tiles(np.array([1.0, 129.0]), 128)) == [128, 256]
    odd = dataclasses.replace(LLAMA, ffn=28_673, experts=0)
    one, other = (Splitter(shape, FORMATS["bf16"], Parallel(tp=8)).split(DECODE) for shape in (LLAMA, odd))
    assert other.dense_flops > one.dense_flops * 1.0005


def test_many_steps_at_once_cost_what_each_costs_alone() -> None:
    splitter = Splitter(LLAMA, FORMATS["fp8"], Parallel(tp=2))
    works = [splitter.split(dataclasses.replace(DECODE, tokens=tokens, sequences=tokens)) for tokens in (1, 64, 700)]
    speeds = dataclasses.replace(FAST, bytes_per_s=3e12, flops_per_s=1e15, layer_s=1e-5, knee=3.0)
    together = price(stack(works), speeds).duration_s
    assert list(together) == pytest.approx([price(work, speeds).duration_s for work in works])


def test_int4_without_units_moves_fewer_bytes_and_unpacks() -> None:
    plain, packed = (
        Splitter(LLAMA, FORMATS[name], Parallel(), unpacks=name != "bf16").split(DECODE) for name in ("bf16", "w4a16")
    )
    assert packed.dense_bytes < plain.dense_bytes / 3
    assert packed.dense_flops == plain.dense_flops
    assert packed.unpacked == LLAMA.dense_weights and plain.unpacked == 0
