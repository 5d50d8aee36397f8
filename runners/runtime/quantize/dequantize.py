"""From the bytes of a GGUF tensor to float32 values, one vectorised function per format.

Here are the plain formats and those of 32 values a block: a float16 scale (Q4_1 and Q5_1: and a float16 minimum; MXFP4:
an exponent), then packed integers. Of a packed byte the low nibble is value i, the high nibble value i + 16. Blocks of
256 values are dequantize_k.py's. It quantises nothing.

Layouts: `block_q4_0` … in ggml's ggml-common.h; MXFP4: OCP Microscaling Formats 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from runners.runtime.quantize.block_types import BLOCKS
from runners.runtime.quantize.dequantize_k import K_FORMATS
from runners.runtime.quantize.packed import Bytes, Floats, halves, nibbles

_CHUNK_VALUES = 1 << 18
"""Values turned at a time, so that what is computed on the way stays small beside the result, and in the cache."""

_IQ4_NL_VALUES = np.array(
    (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), np.float32
)  # fmt: skip

_E2M1_DOUBLED = np.array((0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), np.float32)


def dequantize(raw: Bytes, type_name: str, shape: tuple[int, ...]) -> Floats:
    """The values of a tensor, float32 in `shape`, from its bytes. `type_name` is one of block_types.BLOCKS.

    Scales that aren't finite give values that aren't, as anywhere.
    """
    values, block_bytes = BLOCKS[type_name]
    convert = _FORMATS[type_name]
    blocks = raw.reshape(-1, block_bytes)
    result = np.empty((len(blocks), values), np.float32)
    step = max(1, _CHUNK_VALUES // values)
    with np.errstate(all="ignore"):  # a scale of infinity times zero
        for start in range(0, len(blocks), step):
            result[start : start + step] = convert(blocks[start : start + step])
    assert result.size == math.prod(shape)
    return result.reshape(shape)


def _from_f32(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view("<f4").astype(np.float32, copy=False)


def _from_f16(blocks: Bytes) -> Floats:
    return halves(blocks, 0)


def _from_bf16(blocks: Bytes) -> Floats:
    return (np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << 16).view(np.float32)


def _from_q8_0(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * blocks[:, 2:].view(np.int8)


def _from_q4_0(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * (nibbles(blocks[:, 2:]).astype(np.float32) - np.float32(8))


def _from_q4_1(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * nibbles(blocks[:, 4:]) + halves(blocks, 2)


def _from_q5_0(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * (_five_bits(blocks[:, 6:], blocks[:, 2:6]) - np.float32(16))


def _from_q5_1(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * _five_bits(blocks[:, 8:], blocks[:, 4:8]) + halves(blocks, 2)


def _from_iq4_nl(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * _IQ4_NL_VALUES[nibbles(blocks[:, 2:])]


def _from_mxfp4(blocks: Bytes) -> Floats:
    """The exponent says 2^(e - 127), halved here as the table holds doubled values."""
    exponent = blocks[:, :1].astype(np.uint32)
    bits = np.where(exponent < 2, np.uint32(0x00200000) << exponent, (exponent - 1) << 23)
    return bits.astype(np.uint32).view(np.float32) * _E2M1_DOUBLED[nibbles(blocks[:, 1:])]


def _five_bits(low: Bytes, high: Bytes) -> Floats:
    """(num_blocks, 16) bytes of nibbles and (num_blocks, 4) of fifth bits to (num_blocks, 32) values 0 … 31."""
    fifth = np.unpackbits(high, axis=1, bitorder="little")
    return (nibbles(low) | fifth << 4).astype(np.float32)


_FORMATS: Mapping[str, Callable[[Bytes], Floats]] = {
    "F32": _from_f32,
    "F16": _from_f16,
    "BF16": _from_bf16,
    "Q8_0": _from_q8_0,
    "Q4_0": _from_q4_0,
    "Q4_1": _from_q4_1,
    "Q5_0": _from_q5_0,
    "Q5_1": _from_q5_1,
    "IQ4_NL": _from_iq4_nl,
    "MXFP4": _from_mxfp4,
    **K_FORMATS,
}
"""(num_blocks, block bytes) to (num_blocks, block values)."""
