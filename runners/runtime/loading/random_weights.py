"""A decoder's weights drawn at random, for a model that is a shape alone.

Each tensor has a stream of its own, by the model's seed and the tensor's role: it is the same whenever it is read, and
in every run. Matrices have a variance of 1 over their inputs, norms are 1: what goes into a matrix and comes out of it
keeps its scale, so that no activation overflows whatever the depth. Under another version of torch the streams may be
others.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import torch

from runners.runtime.loading.layout import Layout, gguf_layout
from runners.runtime.models.config import ModelConfig
from runners.runtime.models.weights import ExpertsWeights, GatedWeights, LayerWeights


class RandomWeights:
    """Implements WeightSource; reads nothing. `layout` is that of a file which would hold them."""

    def __init__(self, config: ModelConfig, seed: str) -> None:
        self.layout: Layout = gguf_layout(config)
        self._config, self._seed = config, seed

    def embedding(self) -> torch.Tensor:
        return self._matrix("embedding", self._config.vocab_size, self._config.hidden_size)

    def head(self) -> torch.Tensor:
        if self._config.tied_embeddings:
            return self.embedding()
        return self._matrix("head", self._config.vocab_size, self._config.hidden_size)

    def final_norm(self) -> torch.Tensor:
        return torch.ones(self._config.hidden_size)

    def rope_table(self, name: str) -> list[float]:
        raise LookupError(f"a shape has no table {name!r} of rotary embeddings")

    def layer(self, index: int) -> LayerWeights:
        config, ones = self._config, torch.ones(self._config.hidden_size)
        return LayerWeights(
            attention_norm=ones,
            qkv=self._matrix(f"{index} qkv", config.qkv_size, config.hidden_size),
            qkv_bias=None,
            q_norm=None,
            k_norm=None,
            o=self._matrix(f"{index} o", config.hidden_size, config.q_size),
            o_bias=None,
            post_attention_norm=None,
            ffn_norm=ones,
            ffn=self._experts(index) if config.layers[index].experts else self._gated(f"{index}", config.ffn_size),
            post_ffn_norm=None,
        )

    def _gated(self, place: str, width: int) -> GatedWeights:
        hidden = self._config.hidden_size
        return GatedWeights(
            gate=self._matrix(f"{place} gate", width, hidden),
            up=self._matrix(f"{place} up", width, hidden),
            down=self._matrix(f"{place} down", hidden, width),
        )

    def _experts(self, index: int) -> ExpertsWeights:
        experts = self._config.experts
        assert experts is not None
        router = self._matrix(f"{index} router", experts.count, self._config.hidden_size)
        blocks: Iterator[GatedWeights] = (
            self._gated(f"{index} expert {expert}", experts.ffn_size) for expert in range(experts.count)
        )
        return ExpertsWeights(router, blocks)

    def _matrix(self, role: str, rows: int, columns: int) -> torch.Tensor:
        """(rows, columns), evenly drawn with a variance of 1 / columns."""
        digest = hashlib.sha256(f"{self._seed} {role}".encode()).digest()
        stream = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        bound = math.sqrt(3 / columns)
        return torch.empty(rows, columns).uniform_(-bound, bound, generator=stream)
