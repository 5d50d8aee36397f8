"""Which shapes the built-in runtime can compute on a measured node with random weights; the others are for modelled
nodes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_LAYERS = 1024
INSTEAD = "a dense model or a mixture without shared experts, with full or windowed attention; or modelled nodes"


@dataclass(frozen=True)
class NotMeasurable:
    """`field` is that of the shape."""

    field: str
    message: str
    allowed: str


def why_not_measurable(shape: Mapping[str, Any]) -> NotMeasurable | None:
    """None where the runtime has decoders of this shape."""
    lacking = (
        ("kv_latent_dim", bool(shape.get("kv_latent_dim")), "latent attention (MLA)"),
        ("attention_layers", bool(shape.get("attention_layers")), "a hybrid with recurrent layers"),
        ("shared_ffn", bool(shape.get("shared_ffn")), "a mixture with shared experts"),
    )
    for field, has, words in lacking:
        if has:
            return NotMeasurable(field, f"{words} runs on modelled nodes only", INSTEAD)
    if int(shape["head_dim"]) % 2:
        return NotMeasurable("head_dim", f"{shape['head_dim']} can't be split into rotary pairs", "an even number")
    if int(shape["layers"]) > MAX_LAYERS:
        return NotMeasurable("layers", f"{shape['layers']} layers", f"at most {MAX_LAYERS} on measured nodes")
    return None
