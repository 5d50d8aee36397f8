"""int4 weights without int4 kernels: rounded to what int4 holds, then kept and multiplied as bf16.

The numbers are those of a 4-bit model that computes in bf16, so its quality can be measured; its speed and its memory
are bf16's and say nothing of int4. A run's facts say `emulated`.
"""

from __future__ import annotations

import torch

from runners.runtime.kernels.interface import GatedFFN, KernelSet, Linear
from runners.runtime.models.config import Activation
from runners.runtime.quantize.int4 import round_to_int4


class EmulatedInt4:
    """Every linear layer and the head; norms, biases and the embedding's rows stay as they are."""

    weights = "int4"
    emulated = True

    def __init__(self, bf16: KernelSet) -> None:
        self._bf16 = bf16
        self.name = f"int4 emulated in {bf16.name}"
        self.hidden_dtype = bf16.hidden_dtype
        self.bytes_per_weight = bf16.bytes_per_weight

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        return self._bf16.linear(round_to_int4(weight), bias)

    def gated_ffn(
        self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: Activation = "silu"
    ) -> GatedFFN:
        return self._bf16.gated_ffn(round_to_int4(gate), round_to_int4(up), round_to_int4(down), activation)
