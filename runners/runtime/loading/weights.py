"""A model's weights by role out of its files, in the one order and scale that the decoder wants.

It evens out how files differ: pairing of rotary rows, norms stored less one, experts stacked or apart. Presence and
shape of the tensors were checked with the headers (layout.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runners.runtime.loading.layout import Layout
from runners.runtime.loading.random_weights import RandomWeights
from runners.runtime.loading.read_config import read_config
from runners.runtime.model_source import ModelSource, RandomModel
from runners.runtime.models.config import ModelConfig
from runners.runtime.models.weights import ExpertsWeights, GatedWeights, LayerWeights
from runners.runtime.tensor_file import TensorFile, open_tensor_file


def open_model(source: ModelSource) -> tuple[ModelConfig, FileWeights | RandomWeights]:
    """Configuration and weights of a GGUF file, a folder in Hugging Face layout or a shape; reads no weight yet.

    Raises ModelFileError naming the part that does not fit, UnsupportedShape.
    """
    if isinstance(source, RandomModel):
        config = source.config()
        return config, RandomWeights(config, source.seed)
    file = open_tensor_file(source)
    config, layout = read_config(file)
    return config, FileWeights(file, config, layout)


class FileWeights:
    """Implements WeightSource on an open file; `layout` says where what lies."""

    def __init__(self, file: TensorFile, config: ModelConfig, layout: Layout) -> None:
        self.layout = layout
        self._file, self._config = file, config

    def embedding(self) -> torch.Tensor:
        return self._file.read(self.layout.embedding)

    def head(self) -> torch.Tensor:
        return self.embedding() if self._config.tied_embeddings else self._file.read(self.layout.head)

    def final_norm(self) -> torch.Tensor:
        return self._file.read(self.layout.final_norm) + self.layout.norm_offset

    def rope_table(self, name: str) -> list[float]:
        values: list[float] = self._file.read(name).tolist()
        return values

    def layer(self, index: int) -> LayerWeights:
        config = self._config
        return LayerWeights(
            attention_norm=self._norm("attention_norm", index),
            qkv=self._qkv(index, "q", "k", "v"),
            qkv_bias=self._qkv(index, "q_bias", "k_bias", "v_bias") if config.qkv_bias else None,
            q_norm=self._head_norm("q_norm", index),
            k_norm=self._head_norm("k_norm", index),
            o=self._read("o", index),
            o_bias=self._read("o_bias", index) if config.o_bias else None,
            post_attention_norm=self._norm("post_attention_norm", index) if config.post_norms else None,
            ffn_norm=self._norm("ffn_norm", index),
            ffn=self._experts(index) if config.layers[index].experts else self._gated(index),
            post_ffn_norm=self._norm("post_ffn_norm", index) if config.post_norms else None,
        )

    def _read(self, role: str, layer: int, expert: int = 0) -> torch.Tensor:
        return self._file.read(self.layout.name(role, layer, expert))

    def _norm(self, role: str, layer: int) -> torch.Tensor:
        return self._read(role, layer) + self.layout.norm_offset

    def _head_norm(self, role: str, layer: int) -> torch.Tensor | None:
        return self._neighbours(self._norm(role, layer)) if self._config.qk_norm else None

    def _qkv(self, layer: int, q: str, k: str, v: str) -> torch.Tensor:
        rotated = [self._neighbours(self._read(role, layer)) for role in (q, k)]
        return torch.cat((*rotated, self._read(v, layer)))

    def _neighbours(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows (heads · head_dim, …) whose rotary pairs are neighbours."""
        if not self.layout.rotary_halves:
            return rows
        halves = rows.view(-1, 2, self._config.head_dim // 2, *rows.shape[1:])
        return halves.transpose(1, 2).reshape(rows.shape)

    def _gated(self, layer: int) -> GatedWeights:
        return GatedWeights(self._read("gate", layer), self._read("up", layer), self._read("down", layer))

    def _experts(self, layer: int) -> ExpertsWeights:
        one_by_one = self._stacked_blocks(layer) if self.layout.stacked_experts else self._single_blocks(layer)
        return ExpertsWeights(self._read("router", layer), one_by_one)

    def _stacked_blocks(self, layer: int) -> Iterator[GatedWeights]:
        gates, ups, downs = (self._read(f"expert_{role}", layer) for role in ("gate", "up", "down"))
        for gate, up, down in zip(gates, ups, downs, strict=True):
            yield GatedWeights(gate, up, down)

    def _single_blocks(self, layer: int) -> Iterator[GatedWeights]:
        assert self._config.experts is not None
        for expert in range(self._config.experts.count):
            gate, up, down = (self._read(f"expert_{role}", layer, expert) for role in ("gate", "up", "down"))
            yield GatedWeights(gate, up, down)
