"""The KV pool: what memory leaves room for, or a refusal with the figures."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.chips import ChipRecord, load_catalog
from runners.modelled.capacity import USABLE_SHARE, DoesNotFit, plan_kv_pool
from runners.modelled.cost import CostModel
from runners.modelled.shape import ModelShape

H100 = next(chip for chip in load_catalog() if chip.chip_id == "h100-sxm")
LLAMA_3_8B = ModelShape(32, 4096, 32, 8, 128, 14_336, 128_256, 8192, tied_embeddings=False)


def with_memory(capacity_bytes: int) -> ChipRecord:
    data = H100.model_dump(mode="json")
    data["memory"]["capacity_bytes"] = capacity_bytes
    return ChipRecord.model_validate(data)


BLOCK_SIZES = st.sampled_from([8, 16, 32, 64, 128])
WEIGHTS = st.sampled_from(["bf16", "int8"])


@given(st.integers(10**9, 10**12), BLOCK_SIZES, st.integers(1, 1024), WEIGHTS)
def test_weights_and_pool_never_exceed_the_usable_memory(capacity_bytes, block_size, max_num_seqs, weights) -> None:
    cost = CostModel(with_memory(capacity_bytes), LLAMA_3_8B, weights)
    try:
        pool = plan_kv_pool(cost, block_size, max_num_seqs)
    except DoesNotFit as refusal:
        assert refusal.weight_bytes + refusal.kv_bytes > refusal.usable_bytes
    else:
        used = pool.weight_bytes + pool.num_blocks * pool.block_bytes
        assert used <= capacity_bytes * USABLE_SHARE
        assert pool.num_blocks * block_size >= LLAMA_3_8B.max_model_len


def test_a_model_that_does_not_fit_is_refused_with_the_numbers() -> None:
    huge = dataclasses.replace(LLAMA_3_8B, layers=400)
    with pytest.raises(DoesNotFit) as raised:
        plan_kv_pool(CostModel(H100, huge, "bf16"), 32, 16)
    assert f"{raised.value.weight_bytes:,}" in str(raised.value)
    assert "72,000,000,000" in str(raised.value)
    assert raised.value.retry is False


def test_int8_leaves_more_room_for_the_cache_than_bf16() -> None:
    bf16 = plan_kv_pool(CostModel(H100, LLAMA_3_8B, "bf16"), 32, 1024)
    int8 = plan_kv_pool(CostModel(H100, LLAMA_3_8B, "int8"), 32, 1024)
    assert int8.num_blocks > bf16.num_blocks


def test_a_tied_int8_model_keeps_its_table_beside_the_int8_head() -> None:
    tied = dataclasses.replace(LLAMA_3_8B, tied_embeddings=True)
    assert CostModel(H100, tied, "bf16").resident_bytes < CostModel(H100, LLAMA_3_8B, "bf16").resident_bytes
    assert CostModel(H100, tied, "int8").resident_bytes == CostModel(H100, LLAMA_3_8B, "int8").resident_bytes
