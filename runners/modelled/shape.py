"""What a model has to hold, compute and move, counted from its shape alone.

Counts are those of the architecture's arithmetic: gated MLP or a mixture of experts, grouped-query or latent attention,
full or sliding windows, no biases. They know no chip, no number format of the weights and no time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from runners.roofline import share_reached

KV_BYTES_PER_ELEMENT = 2
TABLE_BYTES_PER_ELEMENT = 2
LATENT_ROPE_DIM = 64
"""Dimensions of a latent key that carry the position (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""
ABSORBED_TOKENS = 16
"""Up to so many new tokens of a sequence, latent attention works on the latent itself, as decode kernels do."""


class ShapeError(ValueError):
    """A model's shape lacks something, or has something that no model has."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The registry's shape. `ffn` is the width of the dense gated MLP, `heads` are those of the queries.

    A mixture has `expert_layers` layers of `experts`, `experts_per_token` of which each token goes through beside a
    shared MLP of `shared_ffn`; its other layers are dense. `sliding_layers` layers see `sliding_window` tokens.
    `kv_latent_dim` is what latent attention (MLA) keeps per token and layer in place of keys and values, and
    `q_latent_dim` the width its queries go through. A hybrid has attention in `attention_layers` layers only,
    and in the others a recurrent state of `state_elements` per sequence, all layers together, kept in 32 bits.
    """

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab_size: int
    max_model_len: int
    tied_embeddings: bool
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    expert_layers: int = 0
    shared_ffn: int = 0
    sliding_window: int = 0
    sliding_layers: int = 0
    kv_latent_dim: int = 0
    q_latent_dim: int = 0
    attention_layers: int = 0
    state_elements: int = 0

    @classmethod
    def from_mapping(cls, shape: Mapping[str, Any]) -> ModelShape:
        """Further keys of `shape` are not looked at; optional ones may be null. Raises ShapeError, naming the field."""
        values: dict[str, Any] = {}
        for item in fields(cls):
            value = shape.get(item.name)
            if item.default is not MISSING and value is None:
                continue
            values[item.name] = _checked(item.name, value, optional=item.default is not MISSING, shape=shape)
        made = cls(**values)
        made._check_together()
        return made

    def _check_together(self) -> None:
        if self.experts_per_token > self.experts:
            raise _refused(
                "experts_per_token", self.experts_per_token, f"at most {self.experts}, the experts there are"
            )
        for name in ("expert_layers", "sliding_layers", "attention_layers"):
            if getattr(self, name) > self.layers:
                raise _refused(name, getattr(self, name), f"at most {self.layers}, the layers there are")
        if self.experts and not (self.expert_ffn and self.expert_layers and self.experts_per_token):
            raise _refused(
                "experts", self.experts, "with expert_ffn, expert_layers and experts_per_token of at least 1"
            )
        if self.sliding_layers and not self.sliding_window:
            raise _refused("sliding_layers", self.sliding_layers, "with a sliding_window of at least 1")

    @property
    def attending_layers(self) -> int:
        return self.attention_layers or self.layers

    @property
    def attention_weights(self) -> int:
        """Elements of one layer's attention: q and o, k and v; or the latent's down and up projections."""
        if not self.kv_latent_dim:
            return 2 * self.hidden_size * self.head_dim * (self.heads + self.kv_heads)
        width = self.heads * self.head_dim
        query_width = width + self.heads * LATENT_ROPE_DIM
        query = self.hidden_size * query_width
        if self.q_latent_dim:
            query = self.q_latent_dim * (self.hidden_size + query_width)
        latent = self.hidden_size * self.kv_latent_dim + (self.kv_latent_dim - LATENT_ROPE_DIM) * 2 * width
        return query + latent + width * self.hidden_size

    @property
    def layer_weights(self) -> int:
        """Elements of a dense layer's matrices: attention, gate, up and down."""
        return self.attention_weights + 3 * self.hidden_size * self.ffn

    @property
    def expert_weights(self) -> int:
        """Elements of one expert of one layer."""
        return 3 * self.hidden_size * self.expert_ffn

    @property
    def dense_weights(self) -> int:
        """Elements of all layers that every token goes through: routers and shared experts, but not the others."""
        mlp = (
            3
            * self.hidden_size
            * (self.ffn * (self.layers - self.expert_layers) + self.shared_ffn * self.expert_layers)
        )
        routers = self.hidden_size * self.experts * self.expert_layers
        return self.layers * self.attention_weights + mlp + routers

    @property
    def routed_weights(self) -> int:
        """Elements of all experts of all layers."""
        return self.expert_layers * self.experts * self.expert_weights

    @property
    def body_weights(self) -> int:
        return self.dense_weights + self.routed_weights

    @property
    def active_weights(self) -> int:
        """Elements of the body that one token is multiplied with."""
        return self.dense_weights + self.expert_layers * self.experts_per_token * self.expert_weights

    @property
    def head_weights(self) -> int:
        """Elements of the output head; also of the embedding table."""
        return self.hidden_size * self.vocab_size

    @property
    def norm_weights(self) -> int:
        return (2 * self.layers + 1) * self.hidden_size

    @property
    def body_outputs(self) -> int:
        """Output channels of the body's matrices: each has a scale of its own when weights are int8."""
        attention = self.head_dim * (self.heads + 2 * self.kv_heads) + self.hidden_size
        dense = self.layers - self.expert_layers
        expert = self.experts * (2 * self.expert_ffn + self.hidden_size) + 2 * self.shared_ffn + self.hidden_size
        mlp = dense * (2 * self.ffn + self.hidden_size) + (self.expert_layers * expert if self.experts else 0)
        return self.layers * attention + mlp

    @property
    def parameters(self) -> int:
        tables = self.head_weights * (1 if self.tied_embeddings else 2)
        return self.body_weights + self.norm_weights + tables

    @property
    def kv_elements_per_layer(self) -> int:
        """Elements that a layer keeps of one token: keys and values of its KV heads, or the latent."""
        return self.kv_latent_dim or 2 * self.kv_heads * self.head_dim

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token in all layers, in bf16."""
        return self.attending_layers * self.kv_elements_per_layer * KV_BYTES_PER_ELEMENT

    @property
    def full_layers(self) -> int:
        """Layers whose attention sees the whole context."""
        return max(self.attending_layers - self.sliding_layers, 0)

    def kv_elements_held(self, context: int) -> int:
        """Elements that a sequence of `context` tokens keeps, and reads for a new token: windows end the growth."""
        seen = min(context, self.sliding_window)
        return self.kv_elements_per_layer * (self.full_layers * context + self.sliding_layers * seen)

    @property
    def state_traffic(self) -> int:
        """What a step moves of a sequence's recurrent state, read and written, as elements of 16 bits."""
        return 4 * self.state_elements

    def experts_touched(self, num_tokens: float) -> float:
        """Expected distinct experts of a layer that `num_tokens` tokens reach (`runners.roofline.share_reached`)."""
        if not self.experts:
            return 0.0
        return self.experts * share_reached(self.experts, self.experts_per_token, num_tokens)

    def experts_touched_most(self, num_tokens: float, chips: int) -> float:
        """The same of the chip that has most to read when the experts lie whole on `chips` chips, which wait for it.

        Touched experts of a chip are binomial; the largest of n is about sqrt(2 ln n) deviations above their mean
        (Cramér 1946, section 28.6), and at most all that the chip holds.
        """
        if not self.experts:
            return 0.0
        share, held = share_reached(self.experts, self.experts_per_token, num_tokens), self.experts / chips
        return min(held * share + math.sqrt(2 * math.log(chips) * held * share * (1 - share)), held)

    def linear_flops(self, num_tokens: int, num_sampled: int) -> int:
        """2 FLOPs per weight and token; the output head for sampled positions alone."""
        return 2 * (self.active_weights * num_tokens + self.head_weights * num_sampled)

    def attention_flops(self, start: int, num_tokens: int) -> int:
        """Causal attention of tokens at positions `start … start + num_tokens - 1`, in all layers.

        A token at position p attends to p + 1 keys, or to as many as a window shows; each key costs 2 FLOPs per head
        dimension in q·k and 2 in p·v. Softmax and norms are not counted, as is usual for MFU (Chowdhery et al. 2022,
        PaLM, appendix B).
        """
        keys = self.full_layers * _keys(start, num_tokens, 0)
        if self.sliding_layers:
            keys += self.sliding_layers * _keys(start, num_tokens, self.sliding_window)
        return self.flops_per_key(num_tokens) * keys

    def flops_per_key(self, num_tokens: int) -> int:
        """Of all heads of a layer, for a sequence that has `num_tokens` new tokens."""
        if not self.kv_latent_dim:
            return 4 * self.heads * self.head_dim
        if num_tokens <= ABSORBED_TOKENS:
            return 2 * self.heads * (2 * self.kv_latent_dim - LATENT_ROPE_DIM)
        return 2 * self.heads * (2 * self.head_dim + LATENT_ROPE_DIM)


def _keys(start: int, num_tokens: int, window: int) -> int:
    """Σ over positions p of start … start + num_tokens - 1 of p + 1, each at most `window` where there is one."""
    stop = start + num_tokens
    if not window or stop <= window:
        return num_tokens * start + num_tokens * (num_tokens + 1) // 2
    growing = max(window - start, 0)
    return growing * start + growing * (growing + 1) // 2 + (num_tokens - growing) * window


def _checked(name: str, value: Any, *, optional: bool, shape: Mapping[str, Any]) -> Any:
    if name == "tied_embeddings":
        if type(value) is not bool:
            raise _refused(name, value, "true or false")
        return value
    least = 0 if optional or (name == "ffn" and shape.get("experts")) else 1
    if type(value) is not int or value < least:
        raise _refused(name, value, f"a whole number of at least {least}")
    return value


def _refused(name: str, value: Any, allowed: str) -> ShapeError:
    return ShapeError(f"shape.{name}: {value!r} is not allowed; allowed: {allowed}")
