"""One decoder layer: attention over the paged cache, then a gated block or a mixture, each with its norms.

One class for every family; what differs is in the configuration. It keeps no state between steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch

from runners.runtime.attention import KVCache, QueryGroup, Slots, attend
from runners.runtime.kernels.elementwise import apply_rope_, rms_norm
from runners.runtime.kernels.interface import GatedFFN, KernelSet, Linear, RowFunction
from runners.runtime.kernels.products import AttentionProducts
from runners.runtime.models.config import ModelConfig, RopeConfig
from runners.runtime.models.experts import Experts
from runners.runtime.models.weights import ExpertsWeights, GatedWeights, LayerWeights


@dataclass(frozen=True, slots=True)
class StepContext:
    """What all layers of a step share: where its rows' KV goes, whom they see under each window, how they turn."""

    slots: Slots
    groups: Mapping[int | None, Seq[QueryGroup]]
    turns: Mapping[RopeConfig, torch.Tensor]
    cache: KVCache


class DecoderLayer:
    """Prepared weights of layer `index`. `weight_bytes` counts its linear layers."""

    def __init__(
        self, index: int, config: ModelConfig, weights: LayerWeights, kernels: KernelSet, products: AttentionProducts
    ) -> None:
        self._index, self._config, self._products = index, config, products
        self._dtype = kernels.hidden_dtype
        norm_dtype = torch.float32 if config.float32_norms else kernels.hidden_dtype
        self._attention_norm, self._ffn_norm = weights.attention_norm.to(norm_dtype), weights.ffn_norm.to(norm_dtype)
        self._post_attention_norm = _optional(weights.post_attention_norm, norm_dtype)
        self._post_ffn_norm = _optional(weights.post_ffn_norm, norm_dtype)
        self._q_norm, self._k_norm = _optional(weights.q_norm), _optional(weights.k_norm)
        self._qkv: Linear = kernels.linear(weights.qkv, weights.qkv_bias)
        self._o: Linear = kernels.linear(weights.o, weights.o_bias)
        self._ffn = _feed_forward(config, weights.ffn, kernels)
        self.weight_bytes = self._qkv.weight_bytes + self._o.weight_bytes + self._ffn.weight_bytes

    def __call__(self, hidden: torch.Tensor, step: StepContext) -> torch.Tensor:
        """Hidden states (rows, hidden_size) after this layer; writes the rows' keys and values to the cache."""
        eps = self._config.norm_eps
        attention = self._attend(self._qkv(rms_norm(hidden, self._attention_norm, eps)), step)
        if self._post_attention_norm is None:
            hidden = self._o.add(attention, hidden)
        else:
            hidden = hidden + rms_norm(self._o(attention), self._post_attention_norm, eps)
        normed = rms_norm(hidden, self._ffn_norm, eps)
        if self._post_ffn_norm is None:
            return self._ffn(normed, hidden)
        return hidden + rms_norm(self._ffn(normed, torch.zeros_like(hidden)), self._post_ffn_norm, eps)

    def row_functions(self) -> list[RowFunction]:
        """Its linear layers, for a check that rows do not depend on each other."""
        config, hidden = self._config, self._config.hidden_size
        ffn = self._ffn
        return [
            RowFunction(self._qkv, hidden, hidden * config.qkv_size),
            RowFunction(lambda x: self._o.add(x, x.new_zeros(len(x), hidden)), config.q_size, config.q_size * hidden),
            ffn.row_function(hidden)
            if isinstance(ffn, Experts)
            else RowFunction(lambda x: ffn(x, torch.zeros_like(x)), hidden, 3 * hidden * config.ffn_size),
        ]

    def _attend(self, qkv: torch.Tensor, step: StepContext) -> torch.Tensor:
        config, layer = self._config, self._config.layers[self._index]
        heads = qkv.view(qkv.shape[0], -1, config.head_dim)
        rotated = config.num_heads + config.num_kv_heads
        queries_keys = self._norm_heads(heads[:, :rotated].to(torch.float32))
        if layer.rope is not None:
            apply_rope_(queries_keys, step.turns[layer.rope])
        step.cache.write(self._index, step.slots, queries_keys[:, config.num_heads :], heads[:, rotated:])
        queries = queries_keys[:, : config.num_heads].mul(config.query_scale)
        groups = step.groups[layer.window]
        out = attend(queries, step.cache, self._index, groups, self._products, config.attention_softcap)
        return out.to(self._dtype)

    def _norm_heads(self, queries_keys: torch.Tensor) -> torch.Tensor:
        """Queries and keys (rows, heads + kv_heads, head_dim), each head normed where the family does."""
        if self._q_norm is None or self._k_norm is None:
            return queries_keys
        num_heads, eps = self._config.num_heads, self._config.norm_eps
        queries, keys = queries_keys[:, :num_heads], queries_keys[:, num_heads:]
        return torch.cat((rms_norm(queries, self._q_norm, eps), rms_norm(keys, self._k_norm, eps)), dim=1)


def _feed_forward(config: ModelConfig, weights: GatedWeights | ExpertsWeights, kernels: KernelSet) -> GatedFFN:
    if isinstance(weights, GatedWeights):
        return kernels.gated_ffn(weights.gate, weights.up, weights.down, config.activation)
    assert config.experts is not None
    return Experts(config.experts, weights, kernels, config.activation)


def _optional(weight: torch.Tensor | None, dtype: torch.dtype = torch.float32) -> torch.Tensor | None:
    return None if weight is None else weight.to(dtype)
