"""Chooses attention's products for a chip: the fast ones where a query's bits depend on nothing beside it, else exact.

Kernels are picked by shape, so every shape that the queries of one sequence can give is tried against the largest one,
computed on one thread; and queries of several sequences against one of them alone. The operands' large terms cancel,
which leaves results made of what the order of summation left over: another order shows in nearly all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from runners.runtime.kernels.products import AttentionProducts, ExactProducts, FastProducts

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_SEQUENCES = (2, 3, 8)
"""How many sequences with a single query share a product, in turn over the sizes."""

_LARGE = 2.0**18
"""The cancelling terms: float32's errors in sums of them are near 1, which is the size of the other terms."""


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
    trial = _Trial(products, shape)
    return all(
        trial.scores_hold(size, several) and trial.mix_holds(size, several)
        for size, several in zip(shape.key_sizes, _SEQUENCES * len(shape.key_sizes), strict=False)
    )


class _Trial:
    """Operands of the largest product of scores, of which the others take a part."""

    def __init__(self, products: AttentionProducts, shape: AttentionShape) -> None:
        self._products, self._shape = products, shape
        self._rows = [count * shape.num_heads // shape.num_kv_heads for count in shape.query_sizes]
        self._queries, self._keys = self._draw(shape.head_dim, shape.key_sizes[-1], products.keys_dtype)
        self._scores = self._largest(products.scores, self._queries, self._keys)

    def scores_hold(self, num_keys: int, several: int) -> bool:
        """With so many keys, scores equal those with all keys."""
        keys = self._keys[:, :, :num_keys].contiguous()
        return self._all_hold(self._products.scores, self._queries, keys, self._scores[:, :, :num_keys], several)

    def mix_holds(self, num_keys: int, several: int) -> bool:
        """With so many keys, values are weighted as with all keys, of which the others have a weight of zero."""
        products = self._products
        weights, values = self._draw(num_keys, self._shape.head_dim, products.values_dtype)
        all_weights = weights.new_zeros(*weights.shape[:2], self._shape.key_sizes[-1])
        all_values = values.new_ones(values.shape[0], self._shape.key_sizes[-1], values.shape[2])
        all_weights[:, :, :num_keys], all_values[:, :num_keys] = weights, values
        whole = self._largest(products.mix, all_weights, all_values)
        return self._all_hold(products.mix, weights, values, whole, several)

    def _draw(self, inner: int, columns: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Operands (heads, rows, inner) of one sequence and (heads, inner, columns) of several.

        Three quarters of the terms cancel in pairs.
        """
        heads, half = self._shape.num_kv_heads * _SEQUENCES[-1], inner // 2
        draw = torch.Generator().manual_seed(inner)
        left = torch.rand(self._shape.num_kv_heads, self._rows[-1], half, generator=draw)
        first = torch.randn(heads, half, columns, generator=draw).mul_(_LARGE)
        second = -first
        for part in (first, second):
            part[:, 3::4] = torch.randn(heads, len(range(3, half, 4)), columns, generator=draw)
        left, right = left.repeat(1, 1, 2), torch.cat((first, second), dim=1)
        return left, right.to(torch.bfloat16).to(dtype)

    def _largest(self, product: Product, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        heads = self._shape.num_kv_heads
        with _one_thread():
            return product(left, right[:heads])

    def _all_hold(
        self, product: Product, left: torch.Tensor, right: torch.Tensor, whole: torch.Tensor, several: int
    ) -> bool:
        heads, first = self._shape.num_kv_heads, self._rows[0]
        for rows in self._rows:
            if not torch.equal(product(left[:, :rows].contiguous(), right[:heads]), whole[:, :rows]):
                return False
        queries = left[:, : first * several].reshape(heads * several, first, -1)
        one = slice(heads * (several - 1), heads * several)
        return torch.equal(product(queries, right[: heads * several])[one], product(queries[one], right[one]))


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
