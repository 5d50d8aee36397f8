"""Plain torch kernels for any chip: the fallback, and the reference that the native kernels are tested against.

bf16 multiplies with `F.linear`. int8 multiplies whole numbers in float32, few enough at a time that every partial sum
is exact in any order (also where the chip rounds operands to bf16, which holds them), so that it gives the very
numbers of an exact integer kernel, slowly.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from runners.runtime.kernels.elementwise import GATES
from runners.runtime.kernels.interface import GatedFFN, Linear
from runners.runtime.kernels.rows import paired
from runners.runtime.models.config import Activation
from runners.runtime.quantize.int8 import quantize_rows

_EXACT_TERMS = 2**24 // 127**2
"""So many products of int8 numbers sum to whole numbers that float32 holds."""


class Bf16Linear:
    """Weights and activations bf16."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = weight.to(torch.bfloat16)
        self._bias = None if bias is None else bias.to(torch.bfloat16)
        self.weight_bytes = self._weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(paired(x), self._weight, self._bias)[: x.shape[0]]

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


class Int8Linear:
    """W8A8: int8 weights per output channel, int8 activations per token, exact sums, float32 result."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        quantized, scale = quantize_rows(weight)
        self._bias = bias
        self._parts = torch.split(quantized.to(torch.float32).t(), _EXACT_TERMS)
        self._scale = scale.flatten()
        self.weight_bytes = quantized.nbytes + self._scale.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        quantized, scale = quantize_rows(x)
        terms = zip(torch.split(quantized.to(torch.float32), _EXACT_TERMS, dim=1), self._parts, strict=True)
        sums = self._exact_sum([x_part @ weight_part for x_part, weight_part in terms])
        return scaled(sums, self._scale, scale, self._bias)

    @staticmethod
    def _exact_sum(parts: list[torch.Tensor]) -> torch.Tensor:
        """Rounded to float32 once."""
        if len(parts) == 1:
            return parts[0]
        return torch.stack(parts).sum(dim=0, dtype=torch.float64).to(torch.float32)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


def scaled(
    sums: torch.Tensor, weight_scale: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Sums of int8 products as float32 results: by output channel, by row, then the bias; in place."""
    sums.mul_(weight_scale).mul_(scale)
    return sums if bias is None else sums.add_(bias)


class PlainGatedFFN:
    """A gated feed-forward block out of two linear layers: gate and up as one, then down."""

    def __init__(self, gate_up: Linear, down: Linear, activation: Activation) -> None:
        self._gate_up, self._down, self._gate = gate_up, down, GATES[activation]
        self.weight_bytes = gate_up.weight_bytes + down.weight_bytes

    def __call__(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self._down.add(self._gate(self._gate_up(x)), residual)


class PortableBf16:
    name = "torch bf16"
    weights = "bf16"
    hidden_dtype = torch.bfloat16
    bytes_per_weight = 2
    emulated = False

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        return Bf16Linear(weight, bias)

    def gated_ffn(
        self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: Activation = "silu"
    ) -> GatedFFN:
        return PlainGatedFFN(Bf16Linear(torch.cat((gate, up))), Bf16Linear(down), activation)


class PortableInt8:
    name = "torch int8 (W8A8)"
    weights = "int8"
    hidden_dtype = torch.float32
    bytes_per_weight = 4  # whole numbers, held as float32
    emulated = False

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        return Int8Linear(weight, bias)

    def gated_ffn(
        self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: Activation = "silu"
    ) -> GatedFFN:
        return PlainGatedFFN(Int8Linear(torch.cat((gate, up))), Int8Linear(down), activation)
