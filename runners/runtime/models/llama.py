"""The Llama decoder over a paged KV cache: token ids of a step in, logits of the rows that are sampled out.

One class for every precision; the kernel set decides how weights are kept and multiplied. It schedules and samples
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch

from runners.runtime.attention import KVCache, QueryGroup, Slots, attend
from runners.runtime.kernels.elementwise import apply_rope_, rms_norm, rope_table
from runners.runtime.kernels.interface import GatedFFN, KernelSet, Linear, RowFunction
from runners.runtime.kernels.products import AttentionProducts
from runners.runtime.loader import LayerWeights, ModelConfig, ModelWeights


@dataclass(frozen=True, slots=True)
class StepInput:
    """The rows of a step: token ids and positions (rows,), where their KV goes, how they attend, which are sampled."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: Slots
    groups: Seq[QueryGroup]
    sampled_rows: torch.Tensor


class _Layer:
    def __init__(self, weights: LayerWeights, kernels: KernelSet) -> None:
        self.attention_norm = weights.attention_norm.to(kernels.hidden_dtype)
        self.qkv: Linear = kernels.linear(weights.qkv)
        self.o: Linear = kernels.linear(weights.o)
        self.ffn_norm = weights.ffn_norm.to(kernels.hidden_dtype)
        self.ffn: GatedFFN = kernels.gated_ffn(weights.gate, weights.up, weights.down)
        self.weight_bytes = self.qkv.weight_bytes + self.o.weight_bytes + self.ffn.weight_bytes


class Llama:
    """`config` and prepared weights. `weight_bytes` counts what one step over every layer and the head must read."""

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        kernels: KernelSet,
        products: AttentionProducts,
        max_model_len: int,
    ) -> None:
        self.config, self.products = config, products
        self._dtype = kernels.hidden_dtype
        self._embedding = weights.embedding.to(torch.bfloat16)
        self._layers = [_Layer(layer, kernels) for layer in weights.layers]
        self._final_norm = weights.final_norm.to(kernels.hidden_dtype)
        self._head = kernels.linear(weights.head)
        self._turns = rope_table(config.head_dim, config.rope_theta, max_model_len).unsqueeze(1)
        self.weight_bytes = sum(layer.weight_bytes for layer in self._layers) + self._head.weight_bytes

    def forward(self, step: StepInput, cache: KVCache) -> torch.Tensor:
        """Logits (sampled rows, vocab_size), float32; writes the rows' keys and values to the cache."""
        return self.logits(self.hidden(step, cache))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits (rows, vocab_size), float32, of final hidden states (rows, hidden_size)."""
        return self._head(hidden).to(torch.float32)

    def hidden(self, step: StepInput, cache: KVCache) -> torch.Tensor:
        """Final hidden states (sampled rows, hidden_size), normed; writes the rows' keys and values to the cache."""
        config, eps = self.config, self.config.norm_eps
        hidden = self._embedding[step.token_ids].to(self._dtype)
        turns = self._turns[step.positions]
        for index, layer in enumerate(self._layers):
            qkv = layer.qkv(rms_norm(hidden, layer.attention_norm, eps))
            attention = self._attend(index, qkv, turns, step, cache)
            hidden = layer.o.add(attention, hidden)
            hidden = layer.ffn(rms_norm(hidden, layer.ffn_norm, eps), hidden)
        return rms_norm(hidden[step.sampled_rows], self._final_norm, config.norm_eps)

    def row_functions(self) -> list[RowFunction]:
        """The linear layers' shapes, as those of the first layer and the head, for a check of their independence."""
        layer, hidden, ffn = self._layers[0], self.config.hidden_size, self.config.ffn_size
        attention = self.config.num_heads * self.config.head_dim
        return [
            RowFunction(layer.qkv, hidden, hidden * self.config.qkv_size),
            RowFunction(lambda x: layer.o.add(x, x.new_zeros(len(x), hidden)), attention, attention * hidden),
            RowFunction(lambda x: layer.ffn(x, torch.zeros_like(x)), hidden, 3 * hidden * ffn),
            RowFunction(self._head, hidden, hidden * self.config.vocab_size),
        ]

    def _attend(
        self, index: int, qkv: torch.Tensor, turns: torch.Tensor, step: StepInput, cache: KVCache
    ) -> torch.Tensor:
        config = self.config
        heads = qkv.view(qkv.shape[0], -1, config.head_dim)
        rotated = config.num_heads + config.num_kv_heads
        queries_keys = apply_rope_(heads[:, :rotated].to(torch.float32), turns)
        cache.write(index, step.slots, queries_keys[:, config.num_heads :], heads[:, rotated:])
        queries = queries_keys[:, : config.num_heads].mul(1.0 / math.sqrt(config.head_dim))
        return attend(queries, cache, index, step.groups, self.products).to(self._dtype)
