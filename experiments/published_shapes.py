"""The shapes of published models as rows of a table: how large, what attention and experts, and what a token keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from runners import shapes
from runners.modelled.shape import ModelShape


@dataclass(frozen=True)
class ShapeRow:
    name: str
    parameters: float
    layers: int
    hidden_size: int
    attention: str
    experts: str
    kv_bytes_per_token: int
    max_model_len: int
    why_not_measurable: str


@cache
def shape_rows() -> tuple[ShapeRow, ...]:
    """The smallest first. They come with the installed version, so they are read once."""
    rows = map(_row, shapes.names())
    return tuple(sorted(rows, key=lambda row: row.parameters))


def _row(name: str) -> ShapeRow:
    record = shapes.get(name)
    mapping = record.to_mapping()
    shape, refusal = ModelShape.from_mapping(mapping), shapes.why_not_measurable(mapping)
    return ShapeRow(
        name=name,
        parameters=record.parameters,
        layers=shape.layers,
        hidden_size=shape.hidden_size,
        attention=_attention(shape),
        experts=_experts(shape),
        kv_bytes_per_token=shape.kv_bytes_per_token,
        max_model_len=shape.max_model_len,
        why_not_measurable="" if refusal is None else f"{refusal.field}: {refusal.message}",
    )


def _attention(shape: ModelShape) -> str:
    heads = f"{shape.heads} heads"
    kind = f"{heads}, latent {shape.kv_latent_dim}" if shape.kv_latent_dim else f"{heads}, {shape.kv_heads} of KV"
    window = f"; {shape.sliding_layers} layers see {shape.sliding_window}" if shape.sliding_layers else ""
    hybrid = f"; in {shape.attention_layers} layers" if shape.attention_layers else ""
    return kind + window + hybrid


def _experts(shape: ModelShape) -> str:
    return f"{shape.experts_per_token} of {shape.experts}" if shape.experts else ""
