"""The operations between the linear layers, in plain torch: RMS norm, rotary embedding, gates, soft-caps.

Only operations that round once per element, or reduce along a row, are used outside `row_blocks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from runners.runtime.kernels.rows import row_blocks
from runners.runtime.models.config import Activation

_COLUMNS = 16384
"""Wider rows are cut: one row alone must stay on one thread (see rows.py)."""

_LANES = 32
"""Rows of a multiple of so many elements leave no scalar tail in any of torch's vectorised loops."""


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight along the last dimension, computed in float32, in the type of x.

    A float32 weight multiplies before the result is rounded.
    """
    return F.rms_norm(x.to(weight.dtype), weight.shape, weight, eps).to(x.dtype)


def rope_table(rates: Sequence[float], max_positions: int, scale: float = 1.0) -> torch.Tensor:
    """scale · exp(i · position · rate) as complex64, (max_positions, len(rates)); rates in radians per position."""
    positions = torch.arange(max_positions, dtype=torch.float64)
    angles = torch.outer(positions, torch.tensor(rates, dtype=torch.float64))
    return torch.polar(torch.full_like(angles, scale), angles).to(torch.complex64)


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


def geglu(gate_up: torch.Tensor) -> torch.Tensor:
    """gelu(gate) * up for gate_up (rows, 2 · ffn), gate first; (rows, ffn). Gelu in its tanh form (Hendrycks and Gimpel
    2016), in float32."""
    gate, up = (half.to(torch.float32) for half in gate_up.chunk(2, dim=-1))
    inner = gate.mul(gate).mul_(gate).mul_(0.044715).add_(gate).mul_(math.sqrt(2 / math.pi))
    return tanh(inner).add_(1.0).mul_(gate).mul_(0.5).mul_(up).to(gate_up.dtype)


def soft_cap(x: torch.Tensor, cap: float) -> torch.Tensor:
    """cap · tanh(x / cap) for x (rows, columns), float32; x may be overwritten."""
    return tanh(x.div_(cap)).mul_(cap)


def tanh(x: torch.Tensor) -> torch.Tensor:
    """tanh of x (rows, columns), float32; x may be overwritten."""
    missing = -x.shape[1] % _LANES
    out = F.pad(x, (0, missing)) if missing else x
    for columns in range(0, out.shape[1], _COLUMNS):
        part = out[:, columns : columns + _COLUMNS]
        for block in row_blocks(part.shape[0], part.shape[1]):
            part[block].tanh_()
    return out[:, : x.shape[1]]


GATES: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {"silu": swiglu, "gelu_tanh": geglu}
