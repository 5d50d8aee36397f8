"""Every tensor type against the `gguf` package's own dequantisation, bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from runners.runtime.quantize.block_types import BLOCKS, REFUSED_TYPES, TENSOR_TYPES
from runners.runtime.quantize.dequantize import dequantize

SCALES = (0.0, -0.0, 1.0, 6e-8, -6e-8, 65504.0, -65504.0, float("inf"), float("nan"))
"""Float16 at its edges: the smallest and largest there are, infinity, NaN."""

SCALES_AT = {
    "Q8_0": (0,), "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "IQ4_NL": (0,), "F16": (0,),
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
}  # fmt: skip


def reference(blocks: NDArray[np.uint8], type_name: str) -> NDArray[np.float32]:
    values, _ = BLOCKS[type_name]
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[type_name])
    return np.asarray(theirs, np.float32).reshape(len(blocks), values)


def assert_same(blocks: NDArray[np.uint8], type_name: str) -> None:
    theirs = reference(blocks, type_name)
    ours = dequantize(blocks.reshape(-1), type_name, theirs.shape)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("type_name", BLOCKS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), num_blocks=st.integers(1, 40))
def test_random_blocks_of_every_type_agree_with_the_package(type_name: str, seed: int, num_blocks: int) -> None:
    _, block_bytes = BLOCKS[type_name]
    assert_same(np.random.default_rng(seed).integers(0, 256, (num_blocks, block_bytes), np.uint8), type_name)


@pytest.mark.parametrize("type_name", SCALES_AT)
def test_extreme_scales_agree_with_the_package(type_name: str) -> None:
    _, block_bytes = BLOCKS[type_name]
    blocks = np.random.default_rng(7).integers(0, 256, (len(SCALES) ** 2, block_bytes), np.uint8)
    pairs = np.array([(first, second) for first in SCALES for second in SCALES], "<f2").view(np.uint8).reshape(-1, 4)
    for column, at in enumerate(SCALES_AT[type_name]):
        blocks[:, at : at + 2] = pairs[:, 2 * column : 2 * column + 2]
    assert_same(blocks, type_name)


def test_every_exponent_of_mxfp4_agrees_with_the_package() -> None:
    blocks = np.random.default_rng(7).integers(0, 256, (256, 17), np.uint8)
    blocks[:, 0] = np.arange(256)
    assert_same(blocks, "MXFP4")


@pytest.mark.parametrize("type_name", BLOCKS)
def test_a_tensor_of_more_than_one_chunk_agrees_with_its_parts(type_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, block_bytes = BLOCKS[type_name]
    raw = np.random.default_rng(3).integers(0, 256, 10 * block_bytes, np.uint8)
    whole = dequantize(raw, type_name, (10 * values,))
    monkeypatch.setattr("runners.runtime.quantize.dequantize._CHUNK_VALUES", 3 * values)
    np.testing.assert_array_equal(dequantize(raw, type_name, (10 * values,)), whole)


def test_numbers_and_sizes_of_types_are_the_packages() -> None:
    for number, name in {**TENSOR_TYPES, **REFUSED_TYPES}.items():
        assert gguf.GGMLQuantizationType[name].value == number
    for name, size in BLOCKS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]] == size
    assert set(TENSOR_TYPES.values()) == set(BLOCKS)
