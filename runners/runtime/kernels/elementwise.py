"""The operations between the linear layers, in plain torch: RMS norm, rotary embedding, SwiGLU's gate.

Only operations that round once per element, or reduce along a row, are used outside `row_blocks`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from runners.runtime.kernels.rows import row_blocks

_COLUMNS = 16384
"""Wider rows are cut: one row alone must stay on one thread (see rows.py)."""


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight along the last dimension, computed in float32, in the type of x."""
    return F.rms_norm(x, weight.shape, weight, eps)


def rope_table(head_dim: int, theta: float, max_positions: int) -> torch.Tensor:
    """exp(i · position · theta^(-2j / head_dim)) as complex64, (max_positions, head_dim / 2)."""
    rates = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(max_positions, dtype=torch.float64), rates)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def apply_rope_(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Rotate neighbouring pairs of x (rows, heads, head_dim), float32, in place; `turns` (rows, 1, head_dim / 2)."""
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    for block in row_blocks(x.shape[0], pairs.shape[1] * pairs.shape[2]):
        pairs[block].mul_(turns[block])
    return x


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up for gate_up (rows, 2 · ffn), gate first; (rows, ffn)."""
    gate, up = gate_up.chunk(2, dim=-1)
    out = torch.empty_like(up, memory_format=torch.contiguous_format)
    for columns in range(0, gate.shape[1], _COLUMNS):
        taken = slice(columns, columns + _COLUMNS)
        for block in row_blocks(gate.shape[0], min(gate.shape[1], _COLUMNS)):
            torch.ops.aten.silu.out(gate[block, taken], out=out[block, taken])
    return out.mul_(up)
