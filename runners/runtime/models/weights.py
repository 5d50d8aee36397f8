"""A decoder's weights by role, as float32 tensors, read when they are asked for.

A decoder takes a layer, makes what it computes with, and lets go of it before the next: at no time do the float32
weights of more than one layer lie in memory. Where they come from is for loading/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True)
class GatedWeights:
    """A gated block: gate, up (ffn, hidden), down (hidden, ffn)."""

    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class ExpertsWeights:
    """A mixture: router (experts, hidden), and its gated blocks one after another, to be taken once."""

    router: torch.Tensor
    experts: Iterator[GatedWeights]


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer: qkv (qkv_size, hidden), o (hidden, heads · head_dim), norms (hidden,), q_norm, k_norm (head_dim,).

    Rows of q and k pair rotary neighbours (2i, 2i + 1), in every family.
    """

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    o: torch.Tensor
    o_bias: torch.Tensor | None
    post_attention_norm: torch.Tensor | None
    ffn_norm: torch.Tensor
    ffn: GatedWeights | ExpertsWeights
    post_ffn_norm: torch.Tensor | None


class WeightSource(Protocol):
    """Reads from the files at every call. The head of a model that ties it is the embedding, (vocab, hidden) both."""

    def embedding(self) -> torch.Tensor: ...

    def layer(self, index: int) -> LayerWeights: ...

    def final_norm(self) -> torch.Tensor: ...

    def head(self) -> torch.Tensor: ...

    def rope_table(self, name: str) -> list[float]:
        """What the pairs of a rotary embedding are divided by (see TableScaling), head_dim / 2 numbers."""
        ...
