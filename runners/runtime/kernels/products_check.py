"""Chooses attention's products for a chip: the fast ones where a query's bits depend on nothing beside it, else exact.

Kernels are picked by shape, so every shape that the queries of one sequence can give is tried against the largest one,
computed on one thread; and queries of several sequences against the same alone. Keys beyond those of the smaller
product weigh zero in the larger, as masked ones do.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from runners.runtime.kernels.products import AttentionProducts, ExactProducts, FastProducts

_SEQUENCES = (2, 3, 8)
"""How many sequences with a single query share a product, in turn over the sizes."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """A model's heads, and the numbers of queries and keys, ascending, that a sequence's are padded to in a tile."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    query_sizes: Seq[int]
    key_sizes: Seq[int]


def choose_products(shape: AttentionShape) -> AttentionProducts:
    """Fast products where they hold on this chip with the present number of threads, else exact ones."""
    fast = FastProducts()
    return fast if rows_hold(fast, shape) else ExactProducts()


def rows_hold(products: AttentionProducts, shape: AttentionShape) -> bool:
    """Whether a query has the same bits in products of every shape."""
    heads, group = shape.num_kv_heads, shape.num_heads // shape.num_kv_heads
    rows = [group * count for count in shape.query_sizes]
    largest = _Operands.draw(products, heads, rows[-1], shape.head_dim, shape.key_sizes[-1])
    several = _Operands.draw(products, heads * _SEQUENCES[-1], group, shape.head_dim, shape.key_sizes[-1])
    with _one_thread():
        scores = largest.scores(products)
    for index, size in enumerate(shape.key_sizes):
        with _one_thread():
            mixed = largest.masked(size).mix(products)
        for count in rows:
            part = largest.part(heads, count, size)
            if not torch.equal(part.scores(products), scores[:, :count, :size]):
                return False
            if not torch.equal(part.mix(products), mixed[:, :count]):
                return False
        if not _heads_hold(products, several, heads, heads * _SEQUENCES[index % len(_SEQUENCES)], size):
            return False
    return True


def _heads_hold(products: AttentionProducts, several: _Operands, heads: int, num_heads: int, size: int) -> bool:
    """Whether the last of several sequences has the bits that it has alone."""
    together = several.part(num_heads, several.queries.shape[1], size)
    alone = together.last(heads)
    return torch.equal(together.scores(products)[-heads:], alone.scores(products)) and torch.equal(
        together.mix(products)[-heads:], alone.mix(products)
    )


@dataclass(frozen=True, slots=True)
class _Operands:
    """Random queries, keys, weights and values of a batch of heads."""

    queries: torch.Tensor
    keys: torch.Tensor
    weights: torch.Tensor
    values: torch.Tensor

    @staticmethod
    def draw(products: AttentionProducts, heads: int, rows: int, dim: int, num_keys: int) -> _Operands:
        generator = torch.Generator().manual_seed(rows)
        return _Operands(
            torch.randn(heads, rows, dim, generator=generator),
            torch.randn(heads, dim, num_keys, generator=generator).to(torch.bfloat16).to(products.keys_dtype),
            torch.rand(heads, rows, num_keys, generator=generator),
            torch.randn(heads, num_keys, dim, generator=generator).to(torch.bfloat16).to(products.values_dtype),
        )

    def scores(self, products: AttentionProducts) -> torch.Tensor:
        return products.scores(self.queries, self.keys)

    def mix(self, products: AttentionProducts) -> torch.Tensor:
        return products.mix(self.weights, self.values)

    def part(self, heads: int, rows: int, num_keys: int) -> _Operands:
        return _Operands(
            self.queries[:heads, :rows].contiguous(),
            self.keys[:heads, :, :num_keys].contiguous(),
            self.weights[:heads, :rows, :num_keys].contiguous(),
            self.values[:heads, :num_keys].contiguous(),
        )

    def last(self, heads: int) -> _Operands:
        return _Operands(self.queries[-heads:], self.keys[-heads:], self.weights[-heads:], self.values[-heads:])

    def masked(self, num_keys: int) -> _Operands:
        weights = self.weights.clone()
        weights[:, :, num_keys:] = 0.0
        return _Operands(self.queries, self.keys, weights, self.values)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
