"""Symmetric int8, one scale per row: per output channel for weights, per token for activations (W8A8)."""

from __future__ import annotations

import torch

_SMALLEST_SCALE = 1e-30


def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(q, scale) with x ≈ q · scale: q int8 in -127 … 127 like x, scale float32 (rows, 1). Zeros stay zeros."""
    scale = x.abs().amax(dim=-1, keepdim=True).div_(127.0).clamp_min_(_SMALLEST_SCALE)
    return (x / scale).round_().to(torch.int8), scale
