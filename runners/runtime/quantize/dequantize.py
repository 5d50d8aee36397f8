"""From the bytes of a GGUF tensor to float32 values, one vectorised function per format.

Block layouts as in ggml's `block_q4_0`, `block_q4_1`, `block_q8_0`: 32 values share a float16 scale (and for Q4_1 a
float16 minimum); of a packed byte the low nibble is value i, the high nibble value i + 16. It quantises nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def dequantize(raw: Bytes, type_name: str, shape: tuple[int, ...]) -> Floats:
    """The values of a tensor, float32 in `shape`, from its bytes. `type_name` is one of gguf_file.BLOCKS."""
    return _FORMATS[type_name](raw).reshape(shape)


def _from_f32(raw: Bytes) -> Floats:
    return raw.view("<f4").astype(np.float32)


def _from_f16(raw: Bytes) -> Floats:
    return raw.view("<f2").astype(np.float32)


def _from_bf16(raw: Bytes) -> Floats:
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _from_q8_0(raw: Bytes) -> Floats:
    blocks = raw.reshape(-1, 34)
    return blocks[:, 2:].view(np.int8) * _halves(blocks, 0)


def _from_q4_0(raw: Bytes) -> Floats:
    blocks = raw.reshape(-1, 18)
    return (_nibbles(blocks[:, 2:]) - np.float32(8)) * _halves(blocks, 0)


def _from_q4_1(raw: Bytes) -> Floats:
    blocks = raw.reshape(-1, 20)
    return _nibbles(blocks[:, 4:]) * _halves(blocks, 0) + _halves(blocks, 2)


def _halves(blocks: Bytes, at: int) -> Floats:
    """The float16 at byte `at` of each block, as (num_blocks, 1) float32."""
    return blocks[:, at : at + 2].copy().view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Floats:
    """(num_blocks, 16) bytes to (num_blocks, 32) values 0 … 15."""
    return np.concatenate((packed & 15, packed >> 4), axis=1).astype(np.float32)


_FORMATS = {
    "F32": _from_f32,
    "F16": _from_f16,
    "BF16": _from_bf16,
    "Q8_0": _from_q8_0,
    "Q4_0": _from_q4_0,
    "Q4_1": _from_q4_1,
}
