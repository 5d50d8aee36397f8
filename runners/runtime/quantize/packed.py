"""Reading packed fields out of blocks of bytes: float16 scales, and integers of four and of two bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def halves(blocks: Bytes, at: int) -> Floats:
    """The float16 at byte `at` of each block, as (num_blocks, 1) float32."""
    return blocks[:, at : at + 2].copy().view("<f2").astype(np.float32)


def nibbles(packed: Bytes) -> Bytes:
    """(num_blocks, n) bytes to (num_blocks, 2n) values 0 … 15: all low nibbles, then all high ones."""
    return np.concatenate((packed & 15, packed >> 4), axis=1)


def spread(packed: Bytes, run: int, bits: int) -> Bytes:
    """Fields of `bits` bits from (num_blocks, n) bytes: of each run of `run` bytes first the lowest field of all, then
    the next, giving (num_blocks, n · 8 / bits)."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    fields = packed.reshape(len(packed), -1, 1, run) >> shifts & np.uint8((1 << bits) - 1)
    return fields.reshape(len(packed), -1)
