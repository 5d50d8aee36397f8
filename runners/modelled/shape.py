"""What a dense Llama-shaped model has to hold, compute and move, counted from its shape alone.

Counts are exact for the arithmetic of the architecture: grouped-query attention, gated MLP, no biases. They know no
chip and no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

KV_BYTES_PER_ELEMENT = 2
TABLE_BYTES_PER_ELEMENT = 2


class ShapeError(ValueError):
    """A model's shape lacks something, or has something that no model has."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The registry's shape. `ffn` is the width of the gated MLP, `heads` are those of the queries."""

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab_size: int
    max_model_len: int
    tied_embeddings: bool

    @classmethod
    def from_mapping(cls, shape: Mapping[str, Any]) -> ModelShape:
        """Further keys of `shape` are not looked at. Raises ShapeError that names the field."""
        values: dict[str, Any] = {}
        for item in fields(cls):
            value = shape.get(item.name)
            wanted = bool if item.name == "tied_embeddings" else int
            if type(value) is not wanted or (wanted is int and value < 1):
                allowed = "true or false" if wanted is bool else "a whole number of at least 1"
                raise ShapeError(f"shape.{item.name}: {value!r} is not allowed; allowed: {allowed}")
            values[item.name] = value
        return cls(**values)

    @property
    def layer_weights(self) -> int:
        """Elements of one layer's matrices: q and o, k and v, gate, up and down."""
        attention = 2 * self.hidden_size * self.head_dim * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden_size * self.ffn

    @property
    def body_weights(self) -> int:
        return self.layers * self.layer_weights

    @property
    def head_weights(self) -> int:
        """Elements of the output head; also of the embedding table."""
        return self.hidden_size * self.vocab_size

    @property
    def norm_weights(self) -> int:
        return (2 * self.layers + 1) * self.hidden_size

    @property
    def layer_outputs(self) -> int:
        """Output channels of one layer's matrices: each has a scale of its own when weights are int8."""
        return self.head_dim * (self.heads + 2 * self.kv_heads) + 2 * self.hidden_size + 2 * self.ffn

    @property
    def parameters(self) -> int:
        tables = self.head_weights * (1 if self.tied_embeddings else 2)
        return self.body_weights + self.norm_weights + tables

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token in all layers, in bf16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * KV_BYTES_PER_ELEMENT

    def linear_flops(self, num_tokens: int, num_sampled: int) -> int:
        """2 FLOPs per weight and token; the output head for sampled positions alone."""
        return 2 * (self.body_weights * num_tokens + self.head_weights * num_sampled)

    def attention_flops(self, start: int, num_tokens: int) -> int:
        """Causal attention of tokens at positions `start … start + num_tokens - 1`, in all layers.

        A token at position p attends to p + 1 keys; each key costs 2 FLOPs per head dimension in q·k and 2 in p·v.
        Softmax and norms are not counted, as is usual for MFU (Chowdhery et al. 2022, PaLM, appendix B).
        """
        num_keys = num_tokens * start + num_tokens * (num_tokens + 1) // 2
        return 4 * self.layers * self.heads * self.head_dim * num_keys
