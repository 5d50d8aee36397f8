"""How much memory a model needs at least, and how much a node has.

The need is a lower bound on purpose: whoever is refused by it could never have run the model. What a runtime needs on
top (activations, the file while it is read, a larger KV cache) is for the runtime to say when it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.precision import BYTES_PER_KV, BYTES_PER_WEIGHT


def least_memory_bytes(shape: Mapping[str, Any], weights: str, kv_cache: str, longest_tokens: int) -> int:
    """The weights in the precision that a run asks for, and the keys and values of one sequence of that length.

    A precision that isn't known here counts nothing: it is no reason to refuse.
    """
    weight_bytes = int(shape.get("parameters", 0)) * BYTES_PER_WEIGHT.get(weights, 0)
    return int(weight_bytes + _kv_elements(shape, longest_tokens) * BYTES_PER_KV.get(kv_cache, 0))


def _kv_elements(shape: Mapping[str, Any], tokens: int) -> int:
    """Of one sequence: keys and values or the latent, in the layers that keep them; a window keeps its own tokens."""
    latent = int(shape.get("kv_latent_dim") or 0)
    per_token = latent or 2 * int(shape["kv_heads"]) * int(shape["head_dim"])
    attending, window = int(shape.get("attention_layers") or shape["layers"]), int(shape.get("sliding_window") or 0)
    sliding = min(int(shape.get("sliding_layers") or attending), attending) if window else 0
    return per_token * ((attending - sliding) * tokens + sliding * min(tokens, window))


def machine_memory_bytes(facts: Mapping[str, Any]) -> int | None:
    """The largest memory that the detected machine could put a model into: its own, or that of all its accelerators
    together; None where nothing was detected yet."""
    own = facts.get("memory")
    usable = own.get("usable_bytes") if isinstance(own, Mapping) else None
    listed = facts.get("accelerators")
    found = [one.get("memory_bytes") for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    on_accelerators = sum(size for size in found if isinstance(size, int))
    if not isinstance(usable, int):
        return on_accelerators or None
    return max(usable, on_accelerators)
