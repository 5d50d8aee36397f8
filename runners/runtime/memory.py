"""How much memory a model takes here, before any of it is loaded; and refusal in numbers where there is less.

Counts weights as they are used, the KV cache, rotary tables, and what reading holds for a moment: the float32 values
of the largest piece and a copy on its way. A step's activations are small beside them and not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import psutil

from runners.cgroup import memory_headroom_bytes
from runners.runtime.loading.layout import Layout, needed_tensors
from runners.runtime.models.config import ModelConfig

TABLE_BYTES, KV_BYTES, TURN_BYTES = 2, 2, 8
"""One element of the embedding table and of the KV cache, bf16; one turn of a rotary pair, complex64."""

READING_BYTES = 8
"""Of each weight of the piece that is being read: float32 values and what they are made into."""


class ModelDoesNotFit(ValueError):
    """A model needs more memory than this process can have."""

    retry = False

    def __init__(self, need: MemoryNeed, available_bytes: int) -> None:
        super().__init__(
            f"the model does not fit into memory: it needs {need.total_bytes:,} bytes (weights {need.weight_bytes:,}, "
            f"KV cache {need.kv_bytes:,}, reading {need.reading_bytes:,}); available: {available_bytes:,} bytes"
        )
        self.need, self.available_bytes = need, available_bytes


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """`weight_bytes` stays, with the tables; `reading_bytes` is needed for a moment at a time while loading."""

    weight_bytes: int
    kv_bytes: int
    reading_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weight_bytes + self.kv_bytes + self.reading_bytes


def kv_block_bytes(config: ModelConfig, block_size: int) -> int:
    """Keys and values of one block in every layer."""
    return 2 * KV_BYTES * config.num_layers * config.kv_size * block_size


def memory_need(
    config: ModelConfig, layout: Layout, *, bytes_per_weight: int, kv_bytes: int, max_model_len: int
) -> MemoryNeed:
    """What a model takes. A tied head is a copy beside the embedding table: it is kept as kernels want it."""
    table = config.vocab_size * config.hidden_size
    sizes = {name: prod(shape) for name, shape in needed_tensors(config, layout)}
    linear = sum(sizes.values()) - table + (table if config.tied_embeddings else 0)
    turns = len(config.ropes) * max_model_len * config.head_dim // 2
    largest = max(table, (linear - table) // config.num_layers)
    return MemoryNeed(
        weight_bytes=table * TABLE_BYTES + linear * bytes_per_weight + turns * TURN_BYTES,
        kv_bytes=kv_bytes,
        reading_bytes=largest * READING_BYTES,
    )


def available_bytes() -> int:
    """What this process can still take: of the machine's memory, and of its cgroup's limit."""
    free, room = int(psutil.virtual_memory().available), memory_headroom_bytes()
    return free if room is None else min(free, room)


def refuse_what_does_not_fit(need: MemoryNeed) -> None:
    """Raises ModelDoesNotFit."""
    available = available_bytes()
    if need.total_bytes > available:
        raise ModelDoesNotFit(need, available)
