"""CPU kernels on oneDNN: bf16 with prepacked weights and fused epilogues, int8 (W8A8) with exact integer sums.

On AVX-512 VNNI, AMX and their like these read each weight once and keep the sums in registers. Whether a chip's
int8 sums are exact (older ones saturate 16-bit halves) is for `selfcheck.py` to find out.
"""

from __future__ import annotations

import torch

from runners.runtime.kernels.interface import GatedFFN, Linear
from runners.runtime.kernels.portable import PlainGatedFFN, scaled
from runners.runtime.kernels.rows import paired
from runners.runtime.models.config import Activation
from runners.runtime.quantize.int8 import quantize_rows

_linear = torch.ops.mkldnn._linear_pointwise.default
_linear_binary = torch.ops.mkldnn._linear_pointwise.binary
_qlinear = torch.ops.onednn.qlinear_pointwise.default

_EPILOGUES: dict[Activation, tuple[str, str]] = {"silu": ("swish", ""), "gelu_tanh": ("gelu", "tanh")}
"""oneDNN's names: the operation, and which form of it."""


class Bf16Linear:
    """Weights in oneDNN's own blocked layout; the residual is added in the kernel's epilogue."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = _pack_bf16(weight)
        self._bias = None if bias is None else bias.to(torch.bfloat16)
        self.weight_bytes = weight.numel() * 2

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = _linear(paired(x), self._weight, self._bias, "none", [], "")
        return out[: x.shape[0]]

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = _linear_binary(paired(x), paired(residual), self._weight, self._bias, "add")
        return out[: x.shape[0]]


class Bf16GatedFFN:
    """The activation and the product with `up` happen on the float32 sums, before they are rounded to bf16."""

    def __init__(self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: Activation) -> None:
        self._epilogue = _EPILOGUES[activation]
        self._gate, self._up, self._down = _pack_bf16(gate), _pack_bf16(up), _pack_bf16(down)
        self.weight_bytes = 2 * (gate.numel() + up.numel() + down.numel())

    def __call__(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        rows = paired(x)
        name, form = self._epilogue
        gate = _linear(rows, self._gate, None, name, [], form)
        inner = _linear_binary(rows, gate, self._up, None, "mul")
        out: torch.Tensor = _linear_binary(inner, paired(residual), self._down, None, "add")
        return out[: x.shape[0]]


class Int8Linear:
    """W8A8 prepacked. The kernel wants unsigned activations: they go in shifted by 128, its zero point.

    Scales are applied outside, so that the result has the bits of the portable layer. (`torch._int_mm` on the plain
    layout is quicker for one row of a weight already in cache, and slower from four rows on.)
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        quantized, scale = quantize_rows(weight)
        self._bias = bias
        self._weight = torch.ops.onednn.qlinear_prepack(quantized, None)
        self._scale = scale.flatten()
        self._ones = torch.ones(weight.shape[0])
        self._zeros = torch.zeros(weight.shape[0], dtype=torch.int64)
        self.weight_bytes = quantized.nbytes + scale.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        quantized, scale = quantize_rows(x)
        shifted = quantized.view(torch.uint8).bitwise_xor_(128)
        sums: torch.Tensor = _qlinear(
            shifted, 1.0, 128, self._weight, self._ones, self._zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return scaled(sums, self._scale, scale, self._bias)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


class OneDnnBf16:
    name = "oneDNN bf16, prepacked"
    weights = "bf16"
    hidden_dtype = torch.bfloat16
    bytes_per_weight = 2
    emulated = False

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        return Bf16Linear(weight, bias)

    def gated_ffn(
        self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: Activation = "silu"
    ) -> GatedFFN:
        return Bf16GatedFFN(gate, up, down, activation)


class OneDnnInt8:
    name = "oneDNN int8 (W8A8)"
    weights = "int8"
    hidden_dtype = torch.float32
    bytes_per_weight = 1
    emulated = False

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        return Int8Linear(weight, bias)

    def gated_ffn(
        self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: Activation = "silu"
    ) -> GatedFFN:
        return PlainGatedFFN(Int8Linear(torch.cat((gate, up))), Int8Linear(down), activation)


def _pack_bf16(weight: torch.Tensor) -> torch.Tensor:
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.to(torch.bfloat16), 16)
    return packed
