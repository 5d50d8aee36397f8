"""The shape of a model that has no weights, typed into a document: a published one, changed, or one of one's own."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document, Slug

Size = Annotated[int, Field(ge=1, le=10_000_000)]
Layers = Annotated[int, Field(ge=1, le=10_000)]
SizeOrNone = Annotated[int, Field(ge=0, le=10_000_000)]
NEEDED = ("layers", "hidden_size", "heads")


class ShapeSpec(Document):
    """`like` names a published shape (runners.shapes), whose figures hold where none is given here. Alone, `layers`,
    `hidden_size` and `heads` are needed; null elsewhere means as usual: `kv_heads` as many as heads, `head_dim` the
    hidden size over the heads, `ffn` 4 x hidden size in whole 256s, 32,000 tokens, 8,192 of context, one table for
    embedding and head. The fields are those of a registered model's shape."""

    like: Slug | None = None
    layers: Layers | None = None
    hidden_size: Size | None = None
    heads: Size | None = None
    kv_heads: Size | None = None
    head_dim: Size | None = None
    ffn: SizeOrNone | None = None
    vocab_size: Size | None = None
    max_model_len: Size | None = None
    tied_embeddings: bool | None = None
    experts: SizeOrNone | None = None
    experts_per_token: SizeOrNone | None = None
    expert_ffn: SizeOrNone | None = None
    expert_layers: SizeOrNone | None = None
    shared_ffn: SizeOrNone | None = None
    sliding_window: SizeOrNone | None = None
    sliding_layers: SizeOrNone | None = None
    kv_latent_dim: SizeOrNone | None = None
    q_latent_dim: SizeOrNone | None = None
    attention_layers: SizeOrNone | None = None

    @model_validator(mode="after")
    def whole(self) -> Self:
        missing = [name for name in NEEDED if self.like is None and getattr(self, name) is None]
        if missing:
            raise PydanticCustomError(
                "needed", "{missing} is needed where `like` names no published shape",
                {"field": missing[0], "missing": missing[0], "allowed": "a whole number of at least 1"},
            )  # fmt: skip
        return self


class ShapedModel(Document):
    """A model of random weights."""

    shape: ShapeSpec
