"""Attention over a paged KV cache, the same to the bit for a sequence whatever else is in the batch.

Keys and values are bf16. Scores are float32, with queries rounded to bf16 where the chip multiplies bf16
(`use_bf16_products`), as are the weights of the values. Three things keep a query's result independent of batch,
chunk and padding: a matmul's rows do not influence each other; keys are padded to whole spans, and a masked key adds
an exact zero; and the sum over values runs in tiles of TILE keys counted from position 0, added in order, as longer
inner dimensions may be split otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch

from runners.runtime.loader import ModelConfig

TILE = 512
QUERY_CHUNK = 128
"""Queries of one sequence that are taken at once: bounds the scores' memory, and the keys that causality masks."""

_SPAN = 32
"""Keys are padded to a multiple of this: softmax then sums its vector lanes in the same order at any length."""

_SMALLEST_PRODUCT = 16**3
"""Torch hands smaller batched products to another library, with another order of summation (mkldnn_gemm_min_size)."""


def use_bf16_products() -> None:
    """Let float32 matmuls of this process round their operands to bf16 where the chip has the instruction."""
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # type: ignore[attr-defined]


class KVCache:
    """Blocks of keys (num_kv_heads, num_blocks, head_dim, block_size) and values (…, block_size, head_dim) per layer.

    Keys are stored transposed, as the product with a query reads them.
    """

    def __init__(self, config: ModelConfig, num_blocks: int, block_size: int) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        heads, dim = config.num_kv_heads, config.head_dim
        layers = range(config.num_layers)
        self._keys = [_bf16_zeros(heads, num_blocks, dim, block_size) for _ in layers]
        self._values = [_bf16_zeros(heads, num_blocks, block_size, dim) for _ in layers]

    def write(self, layer: int, slots: Slots, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store keys and values (rows, num_kv_heads, head_dim) of the rows at their slots."""
        keys = keys.to(torch.bfloat16).transpose(0, 1)
        values = values.to(torch.bfloat16).transpose(0, 1)
        self._keys[layer][:, slots.blocks, :, slots.offsets] = keys.transpose(0, 1)
        self._values[layer][:, slots.blocks, slots.offsets] = values

    def gather(self, layer: int, group: QueryGroup) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys (batch · num_kv_heads, head_dim, num_keys) float32, values (…, num_keys, head_dim) bf16, of a group."""
        batch_heads, num_blocks = group.table.shape
        flat = group.table.flatten()
        keys = self._keys[layer].flatten(0, 1).index_select(0, flat)
        values = self._values[layer].flatten(0, 1).index_select(0, flat)
        whole = torch.empty(batch_heads, keys.shape[1], num_blocks, self.block_size)
        whole.copy_(keys.view(batch_heads, num_blocks, *keys.shape[1:]).transpose(1, 2))
        return whole.flatten(2), values.view(batch_heads, num_blocks * self.block_size, -1)


def _bf16_zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Slots:
    """Where each row of a step is stored: its block and the offset in it, (rows,) each."""

    blocks: torch.Tensor
    offsets: torch.Tensor


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Rows `rows` of a step: `num_queries` queries of each of `batch` sequences, one sequence after another.

    `table` (batch · num_kv_heads, blocks) indexes (KV head, block) as one; `mask` (batch, 1, num_queries, num_keys) is
    0 where a query may look and -inf elsewhere.
    """

    rows: slice
    batch: int
    num_queries: int
    table: torch.Tensor
    mask: torch.Tensor


class AttentionPlanner:
    """Lays out the attention of a step: single queries of many sequences as one group, longer chunks one by one."""

    def __init__(self, config: ModelConfig, num_blocks: int, block_size: int) -> None:
        self._num_blocks, self._block_size = num_blocks, block_size
        self._heads = torch.arange(config.num_kv_heads)
        self._min_keys = _SMALLEST_PRODUCT // (config.num_heads * config.head_dim) + 1

    def plan(self, spans: Seq[tuple[int, int, tuple[int, ...]]]) -> list[QueryGroup]:
        """Groups for sequences given as (start, number of tokens, block table), single tokens first."""
        singles = [span for span in spans if span[1] == 1]
        groups = [self._group(0, singles, 0, 1)] if singles else []
        row = len(singles)
        for span in spans[row:]:
            for offset in range(0, span[1], QUERY_CHUNK):
                count = min(QUERY_CHUNK, span[1] - offset)
                groups.append(self._group(row + offset, [span], offset, count))
            row += span[1]
        return groups

    def _group(self, row: int, spans: Seq[tuple[int, int, tuple[int, ...]]], offset: int, count: int) -> QueryGroup:
        first = torch.tensor([start + offset for start, _, _ in spans])
        num_blocks = self._padded_blocks(int(first.max()) + count)
        table = torch.zeros(len(spans), num_blocks, dtype=torch.int64)
        for index, (_, _, blocks) in enumerate(spans):
            held = torch.tensor(blocks[:num_blocks])
            table[index, : len(held)] = held
        by_head = self._heads[None, :, None] * self._num_blocks + table[:, None, :]
        last_visible = first[:, None] + torch.arange(count)
        hidden = torch.arange(num_blocks * self._block_size) > last_visible[:, None, :, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))
        rows = slice(row, row + len(spans) * count)
        return QueryGroup(rows, len(spans), count, by_head.flatten(0, 1), mask)

    def _padded_blocks(self, num_keys: int) -> int:
        """Blocks for so many keys, rounded up to few distinct sizes: kernels are compiled per shape."""
        whole, rest = divmod(max(num_keys, self._min_keys), TILE)
        size = 0
        if rest:
            size = max(1 << (rest - 1).bit_length(), _SPAN)
            if size > _SPAN and rest <= size // 4 * 3:
                size = size // 4 * 3
            size = -(-size // _SPAN) * _SPAN
        return -(-(whole * TILE + size) // self._block_size)


def attend(queries: torch.Tensor, cache: KVCache, layer: int, groups: Seq[QueryGroup]) -> torch.Tensor:
    """Attention output (rows, heads · head_dim) float32 for scaled, rotated queries (rows, heads, head_dim) float32."""
    parts = [_attend_group(queries[group.rows], cache, layer, group) for group in groups]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _attend_group(queries: torch.Tensor, cache: KVCache, layer: int, group: QueryGroup) -> torch.Tensor:
    keys, values = cache.gather(layer, group)
    heads, dim = queries.shape[1:]
    by_head = queries.view(group.batch, group.num_queries, heads, dim).transpose(1, 2)
    by_head = by_head.reshape(keys.shape[0], -1, dim)
    scores = torch.bmm(by_head, keys)
    scores.view(group.batch, heads, group.num_queries, -1).add_(group.mask)
    weights = torch.softmax(scores, dim=-1).to(torch.bfloat16)
    out = torch.bmm(weights[:, :, :TILE], values[:, :TILE]).to(torch.float32)
    for start in range(TILE, values.shape[1], TILE):
        out += torch.bmm(weights[:, :, start : start + TILE], values[:, start : start + TILE])
    out = out.view(group.batch, heads, group.num_queries, dim).transpose(1, 2)
    return out.reshape(-1, heads * dim)
