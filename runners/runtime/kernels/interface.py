"""What a model asks of a chip's kernels: linear layers and gated feed-forward blocks made from float32 weights.

A kernel set fixes the precision: the type of the hidden states that go in (`hidden_dtype`) and how weights are kept.
Every result row depends on its own input row alone, never on how many rows share the call; `selfcheck.py` tries it.
Attention's products are an interface of their own, in products.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from runners.runtime.models.config import Activation


class Linear(Protocol):
    """y = x · Wᵀ + bias for x (rows, in_features) and W (out_features, in_features)."""

    weight_bytes: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """residual + x · Wᵀ + bias; `residual` may be overwritten."""
        ...


class GatedFFN(Protocol):
    """residual + (activation(x · gateᵀ) * (x · upᵀ)) · downᵀ; `residual` may be overwritten."""

    weight_bytes: int

    def __call__(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor: ...


class KernelSet(Protocol):
    """Makes the layers of one precision on one chip. `name` and `weights` go into a run's facts.

    `bytes_per_weight` is what a linear layer's weight takes in memory. Where `emulated`, it has a format's numbers
    without its speed.
    """

    name: str
    weights: str
    hidden_dtype: torch.dtype
    bytes_per_weight: int
    emulated: bool

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear: ...

    def gated_ffn(
        self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: Activation = "silu"
    ) -> GatedFFN: ...


@dataclass(frozen=True, slots=True)
class RowFunction:
    """Something that takes rows (rows, in_features) to rows, with about `multiply_adds` for each."""

    compute: Callable[[torch.Tensor], torch.Tensor]
    in_features: int
    multiply_adds: int
