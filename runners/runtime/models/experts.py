"""A mixture of experts: each row is routed by itself to a few gated blocks, whose results are added by their shares.

Batch never changes a row: the router's sums are exact whatever their order, the blocks are kernels whose rows do not
depend on each other, and a row adds its experts in the order of its own ranking.
"""

from __future__ import annotations

import torch

from runners.runtime.kernels.interface import GatedFFN, KernelSet, RowFunction
from runners.runtime.models.config import Activation, ExpertsConfig
from runners.runtime.models.weights import ExpertsWeights


class Experts:
    """Implements GatedFFN. `weight_bytes` counts every expert, though a step reads those alone that it routes to."""

    def __init__(
        self, config: ExpertsConfig, weights: ExpertsWeights, kernels: KernelSet, activation: Activation
    ) -> None:
        self._config = config
        # bf16 numbers times float32 ones, summed in float64: the order of summation does not reach the float32 result.
        self._router = weights.router.to(torch.bfloat16).to(torch.float64).t().contiguous()
        self._experts: list[GatedFFN] = [
            kernels.gated_ffn(block.gate, block.up, block.down, activation) for block in weights.experts
        ]
        self.weight_bytes = 2 * self._router.numel() + sum(expert.weight_bytes for expert in self._experts)

    def __call__(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        chosen, shares = self.route(x)
        parts = torch.empty(*chosen.shape, x.shape[1], dtype=x.dtype)
        for index in torch.unique(chosen).tolist():
            rows, ranks = torch.nonzero(chosen == index, as_tuple=True)
            parts[rows, ranks] = self._experts[index](x[rows], x.new_zeros(len(rows), x.shape[1]))
        total = residual.to(torch.float32)
        for rank in range(self._config.per_token):
            total = total + parts[:, rank].to(torch.float32).mul_(shares[:, rank, None])
        return total.to(residual.dtype)

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(experts, shares), most likely first, (rows, per_token) each, of rows (rows, hidden)."""
        logits = (x.to(torch.float64) @ self._router).to(torch.float32)
        shares, chosen = torch.softmax(logits, dim=-1).topk(self._config.per_token, dim=-1)
        if self._config.normalise:
            total = shares[:, :1].clone()
            for rank in range(1, self._config.per_token):
                total += shares[:, rank, None]
            shares = shares / total
        return chosen, shares

    def row_function(self, hidden_size: int) -> RowFunction:
        """One expert as its rows see it, for a check of their independence."""
        expert, width = self._experts[0], self._config.ffn_size
        return RowFunction(lambda x: expert(x, torch.zeros_like(x)), hidden_size, 3 * hidden_size * width)
