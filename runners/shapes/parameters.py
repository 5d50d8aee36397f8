"""How many weights a model of a shape has, by its flat mapping: what its size in memory is counted from.

Norms, embedding table and head among them; no biases. `runners.modelled.shape` takes the same parts one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LATENT_ROPE_DIM = 64
"""Dimensions of a latent key that carry the position (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""


def count_parameters(shape: Mapping[str, Any]) -> int:
    hidden, layers = int(shape["hidden_size"]), int(shape["layers"])
    mixed = int(shape.get("expert_layers") or 0)
    mlps = (layers - mixed) * 3 * hidden * int(shape["ffn"]) + mixed * _mixture(shape, hidden)
    tables = hidden * int(shape["vocab_size"]) * (1 if shape["tied_embeddings"] else 2)
    return layers * _attention(shape, hidden) + mlps + tables + (2 * layers + 1) * hidden


def _attention(shape: Mapping[str, Any], hidden: int) -> int:
    """One layer's: q, k, v and o, or the latent's projections down and up. A hybrid's other layers count as much."""
    heads, head_dim, latent = int(shape["heads"]), int(shape["head_dim"]), int(shape.get("kv_latent_dim") or 0)
    if not latent:
        return 2 * hidden * head_dim * (heads + int(shape["kv_heads"]))
    width, query = heads * head_dim, heads * (head_dim + LATENT_ROPE_DIM)
    through = int(shape.get("q_latent_dim") or 0)
    queries = through * (hidden + query) if through else hidden * query
    return queries + hidden * latent + (latent - LATENT_ROPE_DIM) * 2 * width + width * hidden


def _mixture(shape: Mapping[str, Any], hidden: int) -> int:
    """One layer's: router, experts, and the MLP that they share."""
    experts, width = int(shape.get("experts") or 0), int(shape.get("expert_ffn") or 0)
    return hidden * experts + 3 * hidden * (experts * width + int(shape.get("shared_ffn") or 0))
