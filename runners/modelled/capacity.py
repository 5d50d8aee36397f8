"""How many KV blocks fit beside the weights in a chip's memory."""

from __future__ import annotations

from dataclasses import dataclass

from runners.modelled.cost import CostModel, CostModelError

USABLE_SHARE = 0.9
POOL_SEQUENCES = 2


class DoesNotFit(CostModelError):
    """Weights and the KV cache of one full-length sequence are more than the chip's usable memory."""

    def __init__(self, chip_id: str, weight_bytes: int, kv_bytes: int, usable_bytes: int) -> None:
        super().__init__(
            f"{chip_id}: {weight_bytes:,} bytes of weights and {kv_bytes:,} bytes of KV cache for one sequence of full "
            f"length do not fit; allowed: {usable_bytes:,} bytes ({USABLE_SHARE:.0%} of the chip's memory)"
        )
        self.weight_bytes = weight_bytes
        self.kv_bytes = kv_bytes
        self.usable_bytes = usable_bytes


@dataclass(frozen=True, slots=True)
class KvPool:
    num_blocks: int
    block_bytes: int
    weight_bytes: int
    usable_bytes: int


def plan_kv_pool(cost: CostModel, block_size: int, max_num_seqs: int) -> KvPool:
    """The pool that USABLE_SHARE of the memory leaves room for beside the weights (the rest is for activations).

    It ends at POOL_SEQUENCES times what `max_num_seqs` sequences of full length can hold: more would only be prefix
    cache that no run fills. Raises DoesNotFit when not even one sequence of full length has room,
    CostModelError when the memory is not known.
    """
    shape = cost.shape
    block_bytes = block_size * shape.kv_bytes_per_token
    blocks_per_sequence = -(-shape.max_model_len // block_size)
    if cost.chip.memory.capacity_bytes is None:
        raise CostModelError(f"{cost.chip.chip_id}: memory.capacity_bytes is null; allowed: a chip with one")
    usable_bytes = int(cost.chip.memory.capacity_bytes * USABLE_SHARE)
    fitting = max(usable_bytes - cost.resident_bytes, 0) // block_bytes
    if fitting < blocks_per_sequence:
        raise DoesNotFit(cost.chip.chip_id, cost.resident_bytes, blocks_per_sequence * block_bytes, usable_bytes)
    num_blocks = min(fitting, POOL_SEQUENCES * max_num_seqs * blocks_per_sequence)
    return KvPool(num_blocks, block_bytes, cost.resident_bytes, usable_bytes)
