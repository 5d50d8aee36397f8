"""The K formats of GGUF: 256 values a block, in groups of 16 or 32 whose scales are themselves small integers.

A value is d · scale · q - dmin · minimum, where d and dmin are the block's float16 factors, scale and minimum its
group's, and q the packed integer. Formats without dmin have signed q or signed scales instead.

Layouts: `block_q2_K` … `block_q6_K` in ggml's ggml-common.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from runners.runtime.quantize.packed import Bytes, Floats, halves, nibbles, spread


def _from_q2_k(blocks: Bytes) -> Floats:
    """16 bytes of scale and minimum nibbles, 64 bytes of q, d, dmin."""
    scales = blocks[:, :16]
    q = spread(blocks[:, 16:80], 32, 2)
    return _groups(q, halves(blocks, 80) * (scales & 15)) - _repeat(halves(blocks, 82) * (scales >> 4), 16)


def _from_q3_k(blocks: Bytes) -> Floats:
    """32 bytes of third bits (set: nothing to take off), 64 of q's low two bits, 12 of six-bit scales, d."""
    low = spread(blocks[:, 32:96], 32, 2).astype(np.int8)
    third = spread(blocks[:, :32], 32, 1).astype(np.int8)
    scales = nibbles(blocks[:, 96:104]) | spread(blocks[:, 104:108], 4, 2) << 4
    return _groups(low - 4 + 4 * third, halves(blocks, 108) * (scales.astype(np.int8) - np.int8(32)))


def _from_q4_k(blocks: Bytes) -> Floats:
    """d, dmin, 12 bytes of six-bit scales and minima, 128 bytes of q."""
    scales, minima = _six_bit_pairs(blocks[:, 4:16])
    q = spread(blocks[:, 16:], 32, 4)
    return _groups(q, halves(blocks, 0) * scales) - _repeat(halves(blocks, 2) * minima, 32)


def _from_q5_k(blocks: Bytes) -> Floats:
    """As Q4_K, with 32 bytes of fifth bits before the 128 bytes of q."""
    scales, minima = _six_bit_pairs(blocks[:, 4:16])
    q = spread(blocks[:, 48:], 32, 4) | spread(blocks[:, 16:48], 32, 1) << 4
    return _groups(q, halves(blocks, 0) * scales) - _repeat(halves(blocks, 2) * minima, 32)


def _from_q6_k(blocks: Bytes) -> Floats:
    """128 bytes of q's low four bits, 64 bytes of its high two, 16 signed scales, d."""
    q = spread(blocks[:, :128], 64, 4) | spread(blocks[:, 128:192], 32, 2) << 4
    return _groups(q.astype(np.int8) - np.int8(32), halves(blocks, 208) * blocks[:, 192:208].view(np.int8))


def _six_bit_pairs(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Eight scales and eight minima out of 12 bytes: the first four of each lie in the low six bits of bytes 0 … 3 and
    4 … 7, the others have their low four bits in bytes 8 … 11 and their high two atop of the former."""
    first, second, low = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate((first & 63, low & 15 | first >> 2 & 48), axis=1)
    minima = np.concatenate((second & 63, low >> 4 | second >> 2 & 48), axis=1)
    return scales, minima


def _groups(q: np.ndarray, scales: Floats) -> Floats:
    """(num_blocks, 256) integers times the scale of their group, (num_blocks, num_groups)."""
    return q * _repeat(scales, 256 // scales.shape[1])


def _repeat(values: Floats, times: int) -> Floats:
    return np.repeat(values, times, axis=1)


K_FORMATS: Mapping[str, Callable[[Bytes], Floats]] = {
    "Q2_K": _from_q2_k,
    "Q3_K": _from_q3_k,
    "Q4_K": _from_q4_k,
    "Q5_K": _from_q5_k,
    "Q6_K": _from_q6_k,
}
"""(num_blocks, block bytes) to (num_blocks, 256)."""
