"""Plain torch kernels for any chip: the fallback, and the reference that the native kernels are tested against.

bf16 multiplies with `F.linear`. int8 multiplies whole numbers in float32, few enough at a time that every partial sum
is exact in any order (also where the chip rounds operands to bf16, which holds them), so that it gives the very
numbers of an exact integer kernel, slowly.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from runners.runtime.kernels.elementwise import swiglu
from runners.runtime.kernels.interface import GatedFFN, Linear
from runners.runtime.kernels.rows import paired
from runners.runtime.quantize.int8 import quantize_rows

_EXACT_TERMS = 2**24 // 127**2
"""So many products of int8 numbers sum to whole numbers that float32 holds."""


class Bf16Linear:
    """Weights and activations bf16."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight.to(torch.bfloat16)
        self.weight_bytes = self._weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(paired(x), self._weight)[: x.shape[0]]

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


class Int8Linear:
    """W8A8: int8 weights per output channel, int8 activations per token, exact sums, float32 result."""

    def __init__(self, weight: torch.Tensor) -> None:
        quantized, scale = quantize_rows(weight)
        self._parts = torch.split(quantized.to(torch.float32).t(), _EXACT_TERMS)
        self._scale = scale.flatten()
        self.weight_bytes = quantized.nbytes + self._scale.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        quantized, scale = quantize_rows(x)
        terms = zip(torch.split(quantized.to(torch.float32), _EXACT_TERMS, dim=1), self._parts, strict=True)
        sums = self._exact_sum([x_part @ weight_part for x_part, weight_part in terms])
        return sums.mul_(self._scale).mul_(scale)

    @staticmethod
    def _exact_sum(parts: list[torch.Tensor]) -> torch.Tensor:
        """Rounded to float32 once."""
        if len(parts) == 1:
            return parts[0]
        return torch.stack(parts).sum(dim=0, dtype=torch.float64).to(torch.float32)

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
