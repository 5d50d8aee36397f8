"""A decoder's configuration from a shape alone, for a model of random weights.

It is a Llama: gated MLPs or a mixture of them, grouped queries, one rotary embedding, full attention or sliding
windows. Other kinds of shape are refused by name. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.runtime.models.config import ExpertsConfig, LayerConfig, ModelConfig, RopeConfig
from runners.shapes import why_not_measurable

ARCHITECTURE = "random"
ROPE_THETA = 10_000.0
NORM_EPS = 1e-6


class UnsupportedShape(ValueError):
    """The runtime has no decoder of this shape; trying again would change nothing."""

    retry = False


def config_of_shape(shape: Mapping[str, Any]) -> ModelConfig:
    """Raises UnsupportedShape, naming the field."""
    try:
        refusal = why_not_measurable(shape)
        if refusal is None:
            return _config(shape)
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedShape(f"shape: {type(error).__name__}: {error}; allowed: a whole shape") from error
    raise UnsupportedShape(f"shape.{refusal.field}: {refusal.message}; allowed: {refusal.allowed}")


def _config(shape: Mapping[str, Any]) -> ModelConfig:
    head_dim = int(shape["head_dim"])
    return ModelConfig(
        architecture=ARCHITECTURE,
        hidden_size=int(shape["hidden_size"]),
        num_heads=int(shape["heads"]),
        num_kv_heads=int(shape["kv_heads"]),
        head_dim=head_dim,
        ffn_size=int(shape["ffn"]),
        vocab_size=int(shape["vocab_size"]),
        norm_eps=NORM_EPS,
        max_model_len=int(shape["max_model_len"]),
        tied_embeddings=bool(shape["tied_embeddings"]),
        query_scale=head_dim**-0.5,
        layers=_layers(shape),
        experts=_experts(shape),
    )


def _layers(shape: Mapping[str, Any]) -> tuple[LayerConfig, ...]:
    """Dense layers come before those with experts; windowed ones are spread evenly among the others."""
    count, mixed = int(shape["layers"]), int(shape.get("expert_layers") or 0)
    sliding, window = int(shape.get("sliding_layers") or 0), shape.get("sliding_window")
    rope = RopeConfig(ROPE_THETA)
    return tuple(
        LayerConfig(
            rope,
            window=int(window) if window and (index + 1) * sliding // count > index * sliding // count else None,
            experts=index >= count - mixed,
        )
        for index in range(count)
    )


def _experts(shape: Mapping[str, Any]) -> ExpertsConfig | None:
    if not shape.get("experts"):
        return None
    return ExpertsConfig(
        count=int(shape["experts"]),
        per_token=int(shape["experts_per_token"]),
        ffn_size=int(shape["expert_ffn"]),
        normalise=True,
    )
