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
    kv_per_token = 2 * int(shape["layers"]) * int(shape["kv_heads"]) * int(shape["head_dim"])
    cached_tokens = min(longest_tokens, int(shape.get("sliding_window") or longest_tokens))
    weight_bytes = int(shape.get("parameters", 0)) * BYTES_PER_WEIGHT.get(weights, 0)
    return weight_bytes + kv_per_token * BYTES_PER_KV.get(kv_cache, 0) * cached_tokens


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
