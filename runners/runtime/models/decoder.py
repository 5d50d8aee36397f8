"""The decoder over a paged KV cache: token ids of a step in, logits of the rows that are sampled out.

One class for every family and precision: the configuration says what the layers are, the kernel set how weights are
kept and multiplied. It schedules and samples nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch

from runners.runtime.attention import KVCache, QueryGroup, Slots
from runners.runtime.kernels.elementwise import rms_norm, soft_cap
from runners.runtime.kernels.interface import KernelSet, RowFunction
from runners.runtime.kernels.products import AttentionProducts
from runners.runtime.models.config import ModelConfig
from runners.runtime.models.layer import DecoderLayer, StepContext
from runners.runtime.models.rope import RopeTables
from runners.runtime.models.weights import WeightSource


@dataclass(frozen=True, slots=True)
class StepInput:
    """The rows of a step: token ids and positions (rows,), where their KV goes, how they attend under each sliding
    window of the model, which are sampled."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: Slots
    groups: Mapping[int | None, Seq[QueryGroup]]
    sampled_rows: torch.Tensor


class Decoder:
    """`config` and prepared weights. `weight_bytes` counts the weights of every layer and of the head."""

    def __init__(
        self,
        config: ModelConfig,
        weights: WeightSource,
        kernels: KernelSet,
        products: AttentionProducts,
        max_model_len: int,
    ) -> None:
        self.config, self.products = config, products
        self._dtype = kernels.hidden_dtype
        self._embedding = weights.embedding().to(torch.bfloat16)
        self._embedding_scale = torch.tensor(config.embedding_scale, dtype=self._dtype)
        self._layers = [
            DecoderLayer(index, config, weights.layer(index), kernels, products) for index in range(config.num_layers)
        ]
        self._final_norm = weights.final_norm().to(torch.float32 if config.float32_norms else self._dtype)
        self._head = kernels.linear(weights.head())
        self._ropes = RopeTables(config, weights, max_model_len)
        self.weight_bytes = sum(layer.weight_bytes for layer in self._layers) + self._head.weight_bytes

    def forward(self, step: StepInput, cache: KVCache) -> torch.Tensor:
        """Logits (sampled rows, vocab_size), float32; writes the rows' keys and values to the cache."""
        return self.logits(self.hidden(step, cache))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits (rows, vocab_size), float32, of final hidden states (rows, hidden_size)."""
        logits = self._head(hidden).to(torch.float32)
        return logits if self.config.logit_softcap is None else soft_cap(logits, self.config.logit_softcap)

    def hidden(self, step: StepInput, cache: KVCache) -> torch.Tensor:
        """Final hidden states (sampled rows, hidden_size), normed; writes the rows' keys and values to the cache."""
        hidden = self._embedding[step.token_ids].to(self._dtype)
        if self.config.embedding_scale != 1:
            hidden *= self._embedding_scale
        context = StepContext(step.slots, step.groups, self._ropes.at(step.positions), cache)
        for layer in self._layers:
            hidden = layer(hidden, context)
        return rms_norm(hidden[step.sampled_rows], self._final_norm, self.config.norm_eps)

    def row_functions(self) -> list[RowFunction]:
        """The linear layers of each kind of layer, and the head, for a check that rows do not depend on each other."""
        kinds = {layer.experts: index for index, layer in reversed(list(enumerate(self.config.layers)))}
        size = self.config.hidden_size
        functions = [function for index in kinds.values() for function in self._layers[index].row_functions()]
        return [*functions, RowFunction(self._head, size, size * self.config.vocab_size)]
