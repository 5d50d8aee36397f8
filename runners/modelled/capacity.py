"""How many KV blocks fit beside the weights in the memory of an engine's chips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runners.chips import ChipRecord
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.step_model import CostModelError

USABLE_SHARE = 0.9
POOL_SEQUENCES = 2
MOST_BLOCKS = 1_000_000


class DoesNotFit(CostModelError):
    """Weights and KV cache of one sequence are more than a chip's usable memory; figures are of the fullest chip."""

    def __init__(
        self, chip_id: str, weight_bytes: int, kv_bytes: int, usable_bytes: int, tokens: int, *, field: str = "model"
    ) -> None:
        cache = f" and {kv_bytes:,} bytes of KV cache for one sequence of {tokens:,} tokens" if tokens else ""
        super().__init__(
            f"{chip_id}: {weight_bytes:,} bytes of weights{cache} do not fit a chip",
            field=field,
            allowed=f"{usable_bytes:,} bytes ({USABLE_SHARE:.0%} of the chip's memory: the rest is for activations)",
        )
        self.chip_id = chip_id
        self.weight_bytes = weight_bytes
        self.kv_bytes = kv_bytes
        self.usable_bytes = usable_bytes


class Holder(Protocol):
    """What holds weights and KV cache: the cost model of an engine. `resident_bytes` and `kv_bytes_per_token` are of
    the fullest chip, `kv_element_bytes` of an element of the cache."""

    @property
    def chip(self) -> ChipRecord: ...
    @property
    def shape(self) -> ModelShape: ...
    @property
    def parallel(self) -> Parallel: ...
    @property
    def resident_bytes(self) -> int: ...
    @property
    def kv_bytes_per_token(self) -> float: ...
    @property
    def kv_element_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Held:
    """What two models on the same chips hold together; the cache's blocks are counted as the first one's."""

    chip: ChipRecord
    shape: ModelShape
    parallel: Parallel
    resident_bytes: int
    kv_bytes_per_token: float
    kv_element_bytes: int

    @classmethod
    def both(cls, one: Holder, other: Holder) -> Held:
        return cls(
            one.chip, one.shape, one.parallel, one.resident_bytes + other.resident_bytes,
            one.kv_bytes_per_token + other.kv_bytes_per_token, one.kv_element_bytes,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KvPool:
    """Blocks of an engine, all its data-parallel groups together. A block's bytes are those of its tokens, once: copies
    on further chips do not count. `weight_bytes` and `usable_bytes` are of the fullest chip; a sequence may have as
    many tokens as one group's blocks hold."""

    num_blocks: int
    block_bytes: int
    weight_bytes: int
    usable_bytes: int
    max_sequence_tokens: int


def plan_kv_pool(cost: Holder, block_size: int, max_num_seqs: int, longest: int | None = None) -> KvPool:
    """The pool that USABLE_SHARE of the memory leaves room for beside the weights (the rest is for activations).

    `longest` is the sequence that must fit, in tokens; None is the longest that the model takes. Past MOST_BLOCKS the
    pool ends at POOL_SEQUENCES times what `max_num_seqs` of the `longest` sequences hold: more would only be prefix
    cache, and a block takes memory here too. Raises DoesNotFit when not even one sequence has room, CostModelError when
    the memory is not known.
    """
    shape, groups = cost.shape, cost.parallel.dp
    longest = shape.max_model_len if longest is None else longest
    usable_bytes = _usable_bytes(cost.chip)
    free = max(usable_bytes - cost.resident_bytes, 0)
    fitting = int(free / (block_size * cost.kv_bytes_per_token)) if cost.kv_bytes_per_token else MOST_BLOCKS
    needed = -(-longest // block_size)
    if fitting < needed or cost.resident_bytes > usable_bytes:
        kv_bytes = int(needed * block_size * cost.kv_bytes_per_token)
        raise DoesNotFit(cost.chip.chip_id, cost.resident_bytes, kv_bytes, usable_bytes, longest)
    most = max(MOST_BLOCKS, POOL_SEQUENCES * max_num_seqs * needed)
    kv_per_token = shape.attending_layers * shape.kv_elements_per_layer * cost.kv_element_bytes
    num_blocks = min(fitting * groups, max(most, needed * groups))
    return KvPool(num_blocks, block_size * kv_per_token, cost.resident_bytes, usable_bytes,
                  num_blocks // groups * block_size)  # fmt: skip


def check_weights_fit(holder: Holder) -> None:
    """For chips that hold no cache. Raises DoesNotFit, CostModelError when the memory is not known."""
    usable_bytes = _usable_bytes(holder.chip)
    if holder.resident_bytes > usable_bytes:
        raise DoesNotFit(holder.chip.chip_id, holder.resident_bytes, 0, usable_bytes, 0)


def _usable_bytes(chip: ChipRecord) -> int:
    if chip.memory.capacity_bytes is None:
        raise CostModelError(f"{chip.chip_id}: memory.capacity_bytes is null", allowed="a chip with one")
    return int(chip.memory.capacity_bytes * USABLE_SHARE)
