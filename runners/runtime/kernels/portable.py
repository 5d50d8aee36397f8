"""Plain torch kernels for any chip: the fallback, and the reference that the native kernels are tested against.

bf16 multiplies with `F.linear`. int8 accumulates in float64, which holds every int32 sum exactly, so that it gives
the very numbers of an exact integer kernel, slowly.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from runners.runtime.kernels.elementwise import swiglu
from runners.runtime.kernels.interface import GatedFFN, Linear
from runners.runtime.quantize.int8 import quantize_rows


class Bf16Linear:
    """Weights and activations bf16."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight.to(torch.bfloat16)
        self.weight_bytes = self._weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self._weight)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


class Int8Linear:
    """W8A8: int8 weights per output channel, int8 activations per token, exact sums, float32 result."""

    def __init__(self, weight: torch.Tensor) -> None:
        quantized, scale = quantize_rows(weight)
        self._weight = quantized.to(torch.float64).t()
        self._scale = scale.flatten()
        self.weight_bytes = quantized.nbytes + self._scale.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        quantized, scale = quantize_rows(x)
        sums = quantized.to(torch.float64) @ self._weight
        return (sums.to(torch.float32) * self._scale).mul_(scale)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


class PlainGatedFFN:
    """A gated feed-forward block out of two linear layers: gate and up as one, then down."""

    def __init__(self, gate_up: Linear, down: Linear) -> None:
        self._gate_up, self._down = gate_up, down
        self.weight_bytes = gate_up.weight_bytes + down.weight_bytes

    def __call__(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self._down.add(swiglu(self._gate_up(x)), residual)


class PortableBf16:
    name = "torch bf16"
    weights = "bf16"
    hidden_dtype = torch.bfloat16

    def linear(self, weight: torch.Tensor) -> Linear:
        return Bf16Linear(weight)

    def gated_ffn(self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> GatedFFN:
        return PlainGatedFFN(Bf16Linear(torch.cat((gate, up))), Bf16Linear(down))


class PortableInt8:
    name = "torch int8 (W8A8)"
    weights = "int8"
    hidden_dtype = torch.float32

    def linear(self, weight: torch.Tensor) -> Linear:
        return Int8Linear(weight)

    def gated_ffn(self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> GatedFFN:
        return PlainGatedFFN(Int8Linear(torch.cat((gate, up))), Int8Linear(down))
