"""Attention over a paged KV cache, the same to the bit for a sequence whatever else is in the batch.

Keys and values are bf16, scores and their sums float32. Three things keep a query's result independent of batch, chunk
and padding: products whose rows do not influence each other (kernels/products.py); keys padded to whole spans, where a
masked key adds an exact zero; and a sum over values in tiles of TILE keys from position 0, added in order. Queries and
keys are padded to few sizes, so that the products' shapes can be tried beforehand (kernels/products_check.py). Whole
tiles that a sliding window has left behind are not read: they would add exact zeros too.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from runners.runtime.kernels.elementwise import soft_cap
from runners.runtime.kernels.products import TILE, AttentionProducts
from runners.runtime.models.config import ModelConfig

QUERY_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Numbers of queries of one sequence that are taken at once; others are padded to the next."""

QUERY_CHUNK = QUERY_SIZES[-1]
"""Bounds the scores' memory, and the keys that causality masks."""

_SPAN = 32
"""Keys are padded to a multiple of this: softmax then sums its vector lanes in the same order at any length."""

_SMALLEST_PRODUCT = 16**3
"""Torch hands smaller batched products to another library, with another order of summation (mkldnn_gemm_min_size)."""


class KVCache:
    """Blocks of keys (num_kv_heads, num_blocks, head_dim, block_size) and values (…, block_size, head_dim) per layer.

    Keys are stored transposed, as the product with a query reads them.
    """

    def __init__(
        self, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        heads, dim = config.num_kv_heads, config.head_dim
        layers = range(config.num_layers)
        self._dtype = dtype
        self._keys = [torch.zeros(heads, num_blocks, dim, block_size, dtype=dtype) for _ in layers]
        self._values = [torch.zeros(heads, num_blocks, block_size, dim, dtype=dtype) for _ in layers]

    def write(self, layer: int, slots: Slots, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store keys and values (rows, num_kv_heads, head_dim) of the rows at their slots."""
        keys = keys.to(self._dtype).transpose(0, 1)
        values = values.to(self._dtype).transpose(0, 1)
        self._keys[layer][:, slots.blocks, :, slots.offsets] = keys.transpose(0, 1)
        self._values[layer][:, slots.blocks, slots.offsets] = values

    def gather(
        self, layer: int, group: QueryGroup, keys_dtype: torch.dtype, values_dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys (batch · num_kv_heads, head_dim, num_keys) and values (…, num_keys, head_dim) of a group."""
        batch_heads, num_blocks = group.table.shape
        flat = group.table.flatten()
        keys = self._keys[layer].flatten(0, 1).index_select(0, flat)
        values = self._values[layer].flatten(0, 1).index_select(0, flat)
        whole = torch.empty(batch_heads, keys.shape[1], num_blocks, self.block_size, dtype=keys_dtype)
        whole.copy_(keys.view(batch_heads, num_blocks, *keys.shape[1:]).transpose(1, 2))
        values = values.view(batch_heads, num_blocks * self.block_size, -1)
        return whole.flatten(2), values.to(values_dtype)


@dataclass(frozen=True, slots=True)
class Slots:
    """Where each row of a step is stored: its block and the offset in it, (rows,) each."""

    blocks: torch.Tensor
    offsets: torch.Tensor


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Rows `rows` of a step: `num_queries` queries of each of `batch` sequences, one sequence after another.

    `table` (batch · num_kv_heads, blocks) indexes (KV head, block) as one; `mask` (batch, 1, padded queries, num_keys)
    is 0 where a query may look and -inf elsewhere.
    """

    rows: slice
    batch: int
    num_queries: int
    table: torch.Tensor
    mask: torch.Tensor


Span = tuple[int, int, tuple[int, ...]]
"""A sequence's part of a step: its first position, how many tokens, its block table."""


class AttentionPlanner:
    """Lays out the attention of a step: single queries of many sequences as one group, longer chunks one by one.

    Raises ValueError for blocks that don't fill a tile: the products of its last keys would have untried shapes.
    """

    def __init__(self, config: ModelConfig, num_blocks: int, block_size: int) -> None:
        if TILE % block_size:
            raise ValueError(f"block_size is {block_size}; allowed: a divisor of {TILE}")
        self._num_blocks, self._block_size = num_blocks, block_size
        self._windows = config.windows
        self._heads = torch.arange(config.num_kv_heads)
        self._min_keys = min(_SMALLEST_PRODUCT // (config.num_heads * config.head_dim) + 1, TILE)

    def plan_layers(self, spans: Seq[Span]) -> dict[int | None, list[QueryGroup]]:
        """The groups of `plan` for each sliding window that the model's layers have."""
        longest = max(start + count for start, count, _ in spans)
        reached = {each: each if each is not None and each < longest else None for each in self._windows}
        plans = {cut: self.plan(spans, cut) for cut in set(reached.values())}
        return {window: plans[cut] for window, cut in reached.items()}

    def plan(self, spans: Seq[Span], window: int | None = None) -> list[QueryGroup]:
        """Groups for sequences given as (start, number of tokens, block table), single tokens first.

        With a `window`, a token sees so many tokens, itself included.
        """
        singles = [span for span in spans if span[1] == 1]
        groups = [self._group(0, singles, 0, 1, window)] if singles else []
        row = len(singles)
        for span in spans[row:]:
            for offset in range(0, span[1], QUERY_CHUNK):
                count = min(QUERY_CHUNK, span[1] - offset)
                groups.append(self._group(row + offset, [span], offset, count, window))
            row += span[1]
        return groups

    def _group(self, row: int, spans: Seq[Span], offset: int, count: int, window: int | None) -> QueryGroup:
        first = torch.tensor([start + offset for start, _, _ in spans])
        # Keys are counted from the tile that holds the first one that the first query sees.
        left_behind = torch.zeros_like(first) if window is None else (first - window + 1).clamp_(min=0) // TILE * TILE
        num_blocks = self._padded_blocks(int((first - left_behind).max()) + count)
        table = torch.zeros(len(spans), num_blocks, dtype=torch.int64)
        for index, (_, _, blocks) in enumerate(spans):
            skipped = int(left_behind[index]) // self._block_size
            held = torch.tensor(blocks[skipped : skipped + num_blocks])
            table[index, : len(held)] = held
        by_head = self._heads[None, :, None] * self._num_blocks + table[:, None, :]
        # Queries that pad the group see what its last one sees.
        padded = torch.arange(next(size for size in QUERY_SIZES if size >= count)).clamp_(max=count - 1)
        last_visible = ((first - left_behind)[:, None] + padded)[:, None, :, None]
        keys = torch.arange(num_blocks * self._block_size)
        hidden = keys > last_visible
        if window is not None:
            hidden |= keys <= last_visible - window
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))
        rows = slice(row, row + len(spans) * count)
        return QueryGroup(rows, len(spans), count, by_head.flatten(0, 1), mask)

    def key_sizes(self) -> tuple[int, ...]:
        """Numbers of keys, ascending, that a tile can be padded to."""
        return tuple(sorted({self._padded_blocks(keys) * self._block_size for keys in range(1, TILE + 1)}))

    def _padded_blocks(self, num_keys: int) -> int:
        """Blocks for so many keys, those of the last tile rounded up to few distinct sizes."""
        whole, rest = divmod(num_keys - 1, TILE)
        rest = max(rest + 1, self._min_keys)
        size = max(1 << (rest - 1).bit_length(), _SPAN)
        if size > _SPAN and rest <= size // 4 * 3:
            size = size // 4 * 3
        size = -(-size // _SPAN) * _SPAN
        return -(-(whole * TILE + size) // self._block_size)


def attend(
    queries: torch.Tensor,
    cache: KVCache,
    layer: int,
    groups: Seq[QueryGroup],
    products: AttentionProducts,
    softcap: float | None = None,
) -> torch.Tensor:
    """Attention output (rows, heads · head_dim) float32 for scaled, rotated queries (rows, heads, head_dim) float32.

    `softcap` bounds the scores to ± itself before they are masked.
    """
    parts = [_attend_group(queries[group.rows], cache, layer, group, products, softcap) for group in groups]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _attend_group(
    queries: torch.Tensor,
    cache: KVCache,
    layer: int,
    group: QueryGroup,
    products: AttentionProducts,
    softcap: float | None,
) -> torch.Tensor:
    keys, values = cache.gather(layer, group, products.keys_dtype, products.values_dtype)
    heads, dim = queries.shape[1:]
    padded = group.mask.shape[2]
    by_head = queries.view(group.batch, group.num_queries, heads, dim).transpose(1, 2)
    if padded > group.num_queries:
        by_head = F.pad(by_head, (0, 0, 0, padded - group.num_queries))
    scores = products.scores(by_head.reshape(keys.shape[0], -1, dim), keys)
    if softcap is not None:
        scores = soft_cap(scores.flatten(0, 1), softcap).view(scores.shape)
    scores.view(group.batch, heads, padded, -1).add_(group.mask)
    out = products.mix(torch.softmax(scores, dim=-1), values)
    out = out.view(group.batch, heads, padded, dim)[:, :, : group.num_queries]
    return out.transpose(1, 2).reshape(-1, heads * dim)
