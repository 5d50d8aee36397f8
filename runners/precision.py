"""Bytes of one weight and of one element of the KV cache in each precision that the built-in runtime has."""

from __future__ import annotations

BYTES_PER_WEIGHT = {"bf16": 2, "int8": 1}
BYTES_PER_KV = {"bf16": 2}
