"""The decoder's replaceable parts in float32, so that its arithmetic can be held against transformers' closely."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from runners.runtime.attention import KVCache
from runners.runtime.kernels.portable import PlainGatedFFN
from runners.runtime.loading.weights import open_model
from runners.runtime.models.config import Activation
from runners.runtime.models.decoder import Decoder
from runners.runtime.torch_executor import TorchExecutor


class Float32Linear:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight, self._bias = weight, bias
        self.weight_bytes = weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self._weight, self._bias)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual + self(x)


class Float32Kernels:
    name, weights, hidden_dtype, bytes_per_weight = "plain float32", "float32", torch.float32, 4
    emulated = False

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Float32Linear:
        return Float32Linear(weight, bias)

    def gated_ffn(
        self, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, activation: Activation = "silu"
    ) -> PlainGatedFFN:
        return PlainGatedFFN(Float32Linear(torch.cat((gate, up))), Float32Linear(down), activation)


class Float64Products:
    name, keys_dtype, values_dtype = "float64", torch.float64, torch.float64

    def scores(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.bmm(queries.to(torch.float64), keys).to(torch.float32)

    def mix(self, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.bmm(weights.to(torch.float64), values).to(torch.float32)


def build_float32(path, *, num_blocks: int, block_size: int, change=lambda weights, config: weights) -> TorchExecutor:
    """The executor of a model whose every part, the cache too, is float32 or better; `change` makes other weights out
    of the file's."""
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    config, weights = open_model(path)
    weights = change(weights, config)
    kernels = Float32Kernels()
    with torch.inference_mode():
        decoder = Decoder(config, weights, kernels, Float64Products(), config.max_model_len)
    executor = TorchExecutor(
        decoder, kernels, num_blocks=num_blocks, block_size=block_size, max_model_len=config.max_model_len
    )
    executor._cache = KVCache(config, num_blocks, block_size, torch.float32)
    return executor
