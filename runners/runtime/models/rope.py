"""The turns of a model's rotary embeddings: one table for each that its layers have, indexed by position."""

from __future__ import annotations

import torch

from runners.runtime.kernels.elementwise import rope_table
from runners.runtime.models.config import ModelConfig, RopeConfig, TableScaling
from runners.runtime.models.rope_scaling import attention_factor, rope_rates
from runners.runtime.models.weights import WeightSource


class RopeTables:
    """Turns for positions below `max_model_len`."""

    def __init__(self, config: ModelConfig, weights: WeightSource, max_model_len: int) -> None:
        self._tables = {rope: _table(rope, config.head_dim, weights, max_model_len) for rope in config.ropes}

    def at(self, positions: torch.Tensor) -> dict[RopeConfig, torch.Tensor]:
        """Turns (rows, 1, head_dim / 2) of each embedding at positions (rows,)."""
        return {rope: table[positions] for rope, table in self._tables.items()}


def _table(rope: RopeConfig, head_dim: int, weights: WeightSource, max_model_len: int) -> torch.Tensor:
    divisors = weights.rope_table(rope.scaling.tensor) if isinstance(rope.scaling, TableScaling) else None
    rates = rope_rates(rope, head_dim, divisors)
    return rope_table(rates, max_model_len, attention_factor(rope)).unsqueeze(1)
