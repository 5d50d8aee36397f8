"""The same function with other weights: channels scaled up in one matrix or norm and down in the next.

A file that is quantised already lies on its own grid, so rounding to a grid of that kind finds it almost free of error.
Here each channel between two linear parts gets a factor, drawn from a seed and no power of two: weights leave the grid,
the function stays (but for rounding). Pairs: a norm and the linear layers that read it, values and the attention's
output, up and down of a gated block, the last norm and the head. It reads another source and keeps nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from runners.runtime.models.config import ModelConfig
from runners.runtime.models.weights import ExpertsWeights, GatedWeights, LayerWeights, WeightSource

WIDEST = 1.25
"""Factors lie between 1 / WIDEST and WIDEST, evenly on the log scale: several steps of a 4-bit grid for the largest
weights of a group, and little beside the spread that channels have anyway."""


class RescaledWeights:
    """Implements WeightSource over another one. The same seed gives the same factors."""

    def __init__(self, source: WeightSource, config: ModelConfig, seed: str = "rescale") -> None:
        self._source, self._config, self._seed = source, config, seed

    def embedding(self) -> torch.Tensor:
        return self._source.embedding()

    def rope_table(self, name: str) -> list[float]:
        return self._source.rope_table(name)

    def final_norm(self) -> torch.Tensor:
        return self._source.final_norm() * self._factors("final", self._config.hidden_size)

    def head(self) -> torch.Tensor:
        return self._source.head() / self._factors("final", self._config.hidden_size)

    def layer(self, index: int) -> LayerWeights:
        weights, hidden = self._source.layer(index), self._config.hidden_size
        attention, ffn = self._factors(f"{index} attention", hidden), self._factors(f"{index} ffn", hidden)
        rows, columns = self._value_factors(index)
        return replace(
            weights,
            attention_norm=weights.attention_norm * attention,
            qkv=weights.qkv / attention * rows[:, None],
            qkv_bias=None if weights.qkv_bias is None else weights.qkv_bias * rows,
            o=weights.o / columns,
            ffn_norm=weights.ffn_norm * ffn,
            ffn=self._feed_forward(index, weights.ffn, ffn),
        )

    def _value_factors(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the rows of qkv (1 for queries and keys), and of the columns of the attention's output (q_size,).

        Heads of queries that share a head of values share its factors.
        """
        config = self._config
        values = self._factors(f"{index} values", config.kv_size)
        rows = torch.cat((torch.ones(config.q_size + config.kv_size), values))
        by_head = values.view(config.num_kv_heads, config.head_dim)
        return rows, by_head.repeat_interleave(config.num_heads // config.num_kv_heads, dim=0).flatten()

    def _feed_forward(
        self, index: int, weights: GatedWeights | ExpertsWeights, ffn: torch.Tensor
    ) -> GatedWeights | ExpertsWeights:
        if isinstance(weights, GatedWeights):
            return self._gated(f"{index}", weights, ffn)
        return ExpertsWeights(weights.router / ffn, self._experts(index, weights.experts, ffn))

    def _experts(self, index: int, experts: Iterator[GatedWeights], ffn: torch.Tensor) -> Iterator[GatedWeights]:
        for number, expert in enumerate(experts):
            yield self._gated(f"{index} expert {number}", expert, ffn)

    def _gated(self, place: str, weights: GatedWeights, ffn: torch.Tensor) -> GatedWeights:
        inner = self._factors(f"{place} inner", weights.up.shape[0])
        return GatedWeights(weights.gate / ffn, weights.up / ffn * inner[:, None], weights.down / inner)

    def _factors(self, place: str, count: int) -> torch.Tensor:
        """(count,) float32."""
        digest = hashlib.sha256(f"{self._seed} {place}".encode()).digest()
        stream = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        bound = math.log(WIDEST)
        return torch.empty(count).uniform_(-bound, bound, generator=stream).exp_()
