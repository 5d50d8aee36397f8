"""How long a step takes at the least: the bare roofline of a chip record and a model's shape.

A step takes max(FLOPs / peak FLOP/s, bytes / peak bandwidth): compute and memory fully overlapped, each at its peak,
no launch, no synchronisation, activations never leaving the chip (Williams, Waterman, Patterson 2009, "Roofline").
So a real chip is never faster, and often much slower: the model is uncalibrated and every figure of it says so.

Precision: int8 weights (W8A8) use the chip's own int8 units; where it has none, the bytes shrink and the arithmetic
runs at the rate of the next ones (runners.chips.units). The KV cache is bf16 always, and attention too on a chip that
has units for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from runners.chips import ChipRecord, NotModellable, attention_flops, linear_flops
from runners.modelled.shape import TABLE_BYTES_PER_ELEMENT, ModelShape

COST_MODEL = "bare-roofline-1"
BYTES_PER_WEIGHT: dict[str, int] = {"bf16": 2, "int8": 1}
SCALE_BYTES = 4

WeightFormat = Literal["bf16", "int8"]


class CostModelError(ValueError):
    """The chip or the model can't be modelled as asked; trying again would change nothing."""

    retry = False


class Share(Protocol):
    """What a step computes of one sequence: tokens at positions `start …`, sampled after the last or not."""

    @property
    def start(self) -> int: ...
    @property
    def token_ids(self) -> tuple[int, ...]: ...
    @property
    def sample(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step must compute and move, and the time each takes at the chip's peak."""

    linear_flops: int
    attention_flops: int
    weight_bytes: int
    kv_bytes: int
    compute_s: float
    memory_s: float

    @property
    def duration_s(self) -> float:
        return max(self.compute_s, self.memory_s)

    @property
    def bound(self) -> Literal["compute", "memory"]:
        return "compute" if self.compute_s > self.memory_s else "memory"


class CostModel:
    """The cost of any step of one model on one chip, with weights in one format."""

    def __init__(self, chip: ChipRecord, shape: ModelShape, weights: WeightFormat) -> None:
        """Raises CostModelError when the chip has no units that compute in `weights`, or no known bandwidth."""
        try:
            linear, attention = linear_flops(chip, weights), attention_flops(chip)
        except NotModellable as error:
            raise CostModelError(str(error)) from error
        if attention is None or chip.memory.bandwidth_bytes_per_s is None:
            missing = ", ".join(chip.undisclosed())
            raise CostModelError(f"{chip.chip_id}: {missing} not disclosed; allowed: a chip with all figures")
        self.chip = chip
        self.shape = shape
        self.weights: WeightFormat = weights
        self.native = chip.peak_flops(weights) is not None
        self.linear_flops_per_s = linear
        self.attention_flops_per_s = attention
        self.bytes_per_s = chip.memory.bandwidth_bytes_per_s
        self._body_bytes = self._matrix_bytes(shape.body_weights, shape.body_outputs)
        self._norm_bytes = shape.norm_weights * TABLE_BYTES_PER_ELEMENT
        self._head_bytes = self._matrix_bytes(shape.head_weights, shape.vocab_size)
        self._table_bytes = shape.head_weights * TABLE_BYTES_PER_ELEMENT

    def step(self, batch: Iterable[Share]) -> StepCost:
        """Bytes: the body's weights once, the head's once if anything is sampled, an embedding row per token, and of
        each sequence the keys and values of its new tokens written once and those of its whole context read once,
        as METRICS.md counts them."""
        shape = self.shape
        num_tokens = num_sampled = attention_flops = kv_tokens = 0
        for share in batch:
            new = len(share.token_ids)
            num_tokens += new
            num_sampled += share.sample
            attention_flops += shape.attention_flops(share.start, new)
            kv_tokens += share.start + new + new
        linear_flops = shape.linear_flops(num_tokens, num_sampled)
        weight_bytes = self._body_bytes + self._norm_bytes + (self._head_bytes if num_sampled else 0)
        weight_bytes += num_tokens * shape.hidden_size * TABLE_BYTES_PER_ELEMENT
        kv_bytes = kv_tokens * shape.kv_bytes_per_token
        return StepCost(
            linear_flops=linear_flops,
            attention_flops=attention_flops,
            weight_bytes=weight_bytes,
            kv_bytes=kv_bytes,
            compute_s=linear_flops / self.linear_flops_per_s + attention_flops / self.attention_flops_per_s,
            memory_s=(weight_bytes + kv_bytes) / self.bytes_per_s,
        )

    @property
    def resident_bytes(self) -> int:
        """Weights in memory. A tied bf16 head is the embedding table itself; an int8 head is a copy beside it."""
        shared = self.shape.tied_embeddings and self.weights == "bf16"
        tables = self._table_bytes if shared else self._table_bytes + self._head_bytes
        return self._body_bytes + self._norm_bytes + tables

    def _matrix_bytes(self, elements: int, outputs: int) -> int:
        scales = SCALE_BYTES * outputs if self.weights == "int8" else 0
        return elements * BYTES_PER_WEIGHT[self.weights] + scales
