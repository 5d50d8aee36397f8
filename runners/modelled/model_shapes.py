"""Shapes of published models by key, from a file or the catalog of shapes; unknown ones are made from their size.

A made shape is that of an average decoder of as many parameters: good for bytes and FLOPs, which its size decides, and
not for what depends on its heads. Who uses one can tell by `is_known`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from runners.modelled.shape import ModelShape, ShapeError
from runners.shapes import load_shapes

MAX_MODEL_LEN = 131_072
HIDDEN_PER_LAYER = 115
"""Hidden size over layers of an average decoder (Kaplan et al. 2020, arXiv 2001.08361, find about 100)."""
WEIGHTS_PER_LAYER = 13
"""Elements of a layer over the square of its hidden size, with grouped queries and a gated MLP of 3.5 x."""
AVERAGE_VOCABULARY = 128_000


class ModelShapes:
    def __init__(self, shapes: Mapping[str, ModelShape]) -> None:
        self._shapes = shapes

    @classmethod
    def load(cls, source: str | None = None) -> ModelShapes:
        """The project's own shapes, and beside them those of a JSON list of models, which wins."""
        shapes = {name: ModelShape.from_mapping(record.to_mapping()) for name, record in load_shapes().items()}
        if source is not None:
            items = json.loads(Path(source).read_text(encoding="utf-8"))
            shapes |= {item["model_key"]: shape_from_json(item) for item in items}
        return cls(shapes)

    def is_known(self, key: str | None) -> bool:
        return key in self._shapes

    def get(self, key: str | None, total_b: float | None, active_b: float | None) -> ModelShape:
        """The shape of that key, else one made from billions of parameters. Raises ShapeError without either."""
        found = self._shapes.get(key or "")
        if found is not None:
            return found
        if not total_b:
            raise ShapeError(f"model_key: {key!r} has no known shape, and its size is not given; allowed: either")
        return make_shape(total_b * 1e9, (active_b or total_b) * 1e9)


@cache
def own_shapes() -> ModelShapes:
    """Those of the project, read once."""
    return ModelShapes.load()


def shape_from_json(item: Mapping[str, Any]) -> ModelShape:
    """The shape of one record of a models file."""
    moe = item.get("moe") or {}
    layers = item["layers"]
    full = item.get("full_attention_fraction") or 1.0
    windowed = item.get("sliding_window")
    latent = item.get("mla_latent_dim")
    return ModelShape(
        layers=layers, hidden_size=item["hidden"], heads=item["n_heads"], kv_heads=item["n_kv_heads"],
        head_dim=item["head_dim"], ffn=item.get("dense_ffn") or 0, vocab_size=item["vocab"],
        max_model_len=MAX_MODEL_LEN, tied_embeddings=False, experts=moe.get("experts", 0),
        experts_per_token=moe.get("top_k", 0), expert_ffn=moe.get("expert_ffn", 0),
        expert_layers=moe.get("moe_layers", 0), shared_ffn=moe.get("shared_ffn", 0),
        sliding_window=windowed or 0, sliding_layers=round(layers * (1 - full)) if windowed else 0,
        kv_latent_dim=latent or 0, q_latent_dim=1536 if latent else 0,
        attention_layers=0 if windowed or full == 1.0 else round(layers * full),
    )  # fmt: skip


def make_shape(total: float, active: float) -> ModelShape:
    """A decoder of `total` parameters, of which a token uses `active`."""
    dense = active < 0.9 * total
    backbone = active if dense else total
    hidden = max(128 * round((HIDDEN_PER_LAYER * backbone / WEIGHTS_PER_LAYER) ** (1 / 3) / 128), 128)
    layers = max(round(hidden / HIDDEN_PER_LAYER), 4)
    tables = 2 * hidden * AVERAGE_VOCABULARY
    heads = max(hidden // 128, 1)
    kv_heads = 8 if heads >= 8 else 1
    attention = 2 * hidden * 128 * (heads + kv_heads)
    ffn = max(int(((backbone - tables) / layers - attention) / (3 * hidden)), 128)
    base = ModelShape(layers, hidden, heads, kv_heads, 128, ffn, AVERAGE_VOCABULARY, MAX_MODEL_LEN, False)
    if not dense:
        return base
    width = max(ffn // 8, 64)
    experts = max(round((total - active) / (3 * hidden * width * layers)) + 8, 9)
    return ModelShape(layers, hidden, heads, kv_heads, 128, 0, AVERAGE_VOCABULARY, MAX_MODEL_LEN, False,
                      experts, 8, width, layers)  # fmt: skip
