"""From what a document says at `model` to a whole shape: a published one by name, or a typed one, filled and checked.

A typed shape is named after its content, so that the same shape has the same name, the same hash and, where weights
are made for it, the same weights in every run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from runners.document_errors import BOUNDS, FieldError, SpecError
from runners.shapes.catalog import UnknownShape, get, names
from runners.shapes.record import MAX_PARAMETERS, Shape
from runners.spec import ModelRef, ShapedModel, ShapeSpec

PREFIX = "shape"
HASH_DIGITS = 8
USUAL_VOCABULARY = 32_000
USUAL_CONTEXT = 8_192
FFN_MULTIPLE = 256

GROUPS = {
    "mixture": {"experts": "experts", "experts_per_token": "experts_per_token", "ffn": "expert_ffn",
                "layers": "expert_layers", "shared_ffn": "shared_ffn"},
    "latent": {"kv_dim": "kv_latent_dim", "q_dim": "q_latent_dim"},
    "window": {"tokens": "sliding_window", "layers": "sliding_layers"},
}  # fmt: skip
"""Parts of a shape: their fields, and what each is called where all lie flat. The first switches the part on."""
LAYER_COUNTS = ("expert_layers", "sliding_layers", "attention_layers")
ALSO_AT_FAULT = {
    "kv_heads": ("heads",), "head_dim": ("heads",), "ffn": ("expert_layers", "experts", "hidden_size"),
    **dict.fromkeys(LAYER_COUNTS, ("layers",)),
}  # fmt: skip
"""Where a fault lies in a figure that the document left to be filled in: which of its own figures made it one."""

Flat = dict[str, Any]


@dataclass(frozen=True)
class NamedShape:
    """`shape` is flat, with the keys that a registered model's shape has."""

    name: str
    shape: dict[str, Any]

    @property
    def sha256(self) -> str:
        return shape_hash(self.shape)

    def ref(self) -> ModelRef:
        return ModelRef(name=self.name, sha256=self.sha256, shape=self.shape, random_weights=True)


def resolve(model: str | ShapedModel) -> NamedShape:
    """Raises UnknownShape for a name that no published shape has, SpecError at `model.shape.…` for a typed one that
    can't be."""
    if isinstance(model, str):
        return NamedShape(model, get(model).to_mapping())
    filled = _filled(model.shape)
    mapping = _checked(filled, model.shape).to_mapping()
    if mapping["parameters"] >= MAX_PARAMETERS:
        raise _fault("", f"has {mapping['parameters']:.3g} weights", f"fewer than {MAX_PARAMETERS:.0e}")
    like = model.shape.like
    if like is not None:
        published = get(like).to_mapping()
        if {**mapping, "parameters": published["parameters"]} == published:
            return NamedShape(like, published)
    return NamedShape(f"{like or PREFIX}-{shape_hash(mapping)[:HASH_DIGITS]}", mapping)


def shape_hash(shape: Mapping[str, Any]) -> str:
    """The SHA-256 of a flat shape: what its random weights are drawn from."""
    return hashlib.sha256(json.dumps(dict(shape), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _filled(typed: ShapeSpec) -> Flat:
    """Every figure, flat: the typed ones over those of the shape that it is like, or over the usual ones."""
    given = {name: value for name, value in typed.model_dump(exclude={"like"}).items() if value is not None}
    if typed.like is not None:
        return _like(typed.like, given)
    hidden, heads = given["hidden_size"], given["heads"]
    if "head_dim" not in given and hidden % heads:
        raise _fault("head_dim", f"{hidden} over {heads} heads is no whole number", "the size of a head, given here")
    return {
        "kv_heads": heads,
        "head_dim": hidden // heads,
        "ffn": None if _all_mixed(given) else -(-4 * hidden // FFN_MULTIPLE) * FFN_MULTIPLE,
        "vocab_size": USUAL_VOCABULARY,
        "max_model_len": USUAL_CONTEXT,
        "tied_embeddings": True,
    } | given


def _like(name: str, given: Flat) -> Flat:
    try:
        base = get(name).to_mapping()
    except UnknownShape as error:
        raise _fault("like", f"no published shape {name!r}", names()) from error
    layers = base["layers"]
    filled = base | given
    for count in LAYER_COUNTS:
        if count not in given and base[count] == layers:
            filled[count] = filled["layers"]  # what all layers had, all have
    recurrent = layers - (base["attention_layers"] or layers)
    if base["state_elements"] and filled["attention_layers"]:
        left = max(filled["layers"] - filled["attention_layers"], 0)
        filled["state_elements"] = base["state_elements"] * left // recurrent or None
    return filled


def _all_mixed(given: Flat) -> bool:
    return bool(given.get("experts")) and given.get("expert_layers", given["layers"]) == given["layers"]


def _checked(filled: Flat, typed: ShapeSpec) -> Shape:
    """Raises SpecError at the field that the document gives."""
    layers = filled["layers"]
    values: Flat = {name: filled.get(name) for name in Shape.model_fields if name not in GROUPS}
    values["ffn"] = filled.get("ffn") or None
    if (filled.get("attention_layers") or layers) == layers:
        values["attention_layers"] = values["state_elements"] = None
    values |= {group: _group(group, filled, typed) for group in GROUPS}
    try:
        return Shape.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        context = first.get("ctx") or {}
        field = _flat_name([*first["loc"], *str(context.get("field", "")).split(".")])
        bounds = " and ".join(f"{words} {context[key]}" for key, words in BOUNDS.items() if key in context)
        message = _told(field, str(context.get("given", first["input"])), typed)
        raise _fault(_to_blame(field, typed), message, context.get("allowed") or bounds or None) from error


def _group(group: str, filled: Flat, typed: ShapeSpec) -> Flat | None:
    """One part of the shape; None where it is off, as its first field says. Raises SpecError for one in pieces."""
    fields = GROUPS[group]
    switch = next(iter(fields.values()))
    if not filled.get(switch):
        stray = [name for name in fields.values() if getattr(typed, name) and name != switch]
        if stray and getattr(typed, switch) is None:
            raise _fault(switch, f"is needed with {stray[0]}", "a whole number of at least 1")
        return None
    defaults = {"layers": filled["layers"], "shared_ffn": 0, "q_dim": 0}
    values = {}
    for inner, name in fields.items():
        value = filled.get(name)
        if not value and inner not in defaults:
            raise _fault(name, f"is needed with {switch}", "a whole number of at least 1")
        values[inner] = value or defaults[inner]
    return values


def _flat_name(path: list[Any]) -> str:
    parts = [str(part) for part in path if part != ""]
    if len(parts) == 2 and parts[0] in GROUPS:
        return GROUPS[parts[0]][parts[1]]
    return parts[-1] if parts else ""


def _to_blame(field: str, typed: ShapeSpec) -> str:
    if getattr(typed, field, None) is not None:
        return field
    return next((one for one in ALSO_AT_FAULT.get(field, ()) if getattr(typed, one) is not None), field)


def _told(field: str, message: str, typed: ShapeSpec) -> str:
    filled_in = f", as {typed.like} has it" if typed.like and getattr(typed, field, None) is None else ""
    return f"{field} is {message}{filled_in}"


def _fault(field: str, message: str, allowed: Any) -> SpecError:
    return SpecError([FieldError(f"model.shape.{field}".rstrip("."), message, allowed)])
