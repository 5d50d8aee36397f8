"""Attention's two products, scores and weighted values, in two forms: one quick, one exact on any chip.

A query's result may not depend on the queries, keys and sequences that share the call. The quick form keeps that where
the chip's kernels do, which `products_check.py` tries; the exact form keeps it by arithmetic.
"""

from __future__ import annotations

from typing import Protocol

import torch

TILE = 512
"""Keys are taken in tiles of so many, counted from position 0: longer inner dimensions may be split otherwise, and the
shapes of products stay few enough to try them all."""


class AttentionProducts(Protocol):
    """Both products of a batch of KV heads. `keys_dtype` and `values_dtype` are what it reads them as."""

    name: str
    keys_dtype: torch.dtype
    values_dtype: torch.dtype

    def scores(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """(heads, rows, num_keys) float32 of queries (heads, rows, dim) float32 and keys (heads, dim, num_keys)."""
        ...

    def mix(self, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """(heads, rows, dim) float32 of weights (heads, rows, num_keys) float32 and values (heads, num_keys, dim)."""
        ...


def use_bf16_products() -> None:
    """Let float32 matmuls of this process round their operands to bf16 where the chip has the instruction."""
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # type: ignore[attr-defined]


class FastProducts:
    """oneDNN's: queries are rounded to bf16 where the chip multiplies bf16, as are the weights of the values."""

    name = "fast"
    keys_dtype = torch.float32
    values_dtype = torch.bfloat16

    def scores(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        if keys.shape[2] <= TILE:
            return torch.bmm(queries, keys)
        return torch.cat([torch.bmm(queries, tile) for tile in torch.split(keys, TILE, dim=2)], dim=2)

    def mix(self, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        weights = weights.to(torch.bfloat16)
        out = torch.bmm(weights[:, :, :TILE], values[:, :TILE]).to(torch.float32)
        for start in range(TILE, values.shape[1], TILE):
            out += torch.bmm(weights[:, :, start : start + TILE], values[:, start : start + TILE])
        return out


class ExactProducts:
    """Operands rounded to bf16, products and sums in float64.

    A product of two bf16 numbers has 16 significant bits, so float64 sums them exactly over 30 binades and otherwise
    errs near 2^-53: the order of summation does not reach the float32 result.
    """

    name = "exact"
    keys_dtype = torch.float64
    values_dtype = torch.float64

    def scores(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.bmm(_widened(queries), keys).to(torch.float32)

    def mix(self, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.bmm(_widened(weights), values).to(torch.float32)


def _widened(operand: torch.Tensor) -> torch.Tensor:
    return operand.to(torch.bfloat16).to(torch.float64)
