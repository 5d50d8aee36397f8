"""The shape of a model: its layers and their widths, by the kind of attention and MLP that they have.

A shape is enough to model a run and to make a model of random weights; it has no weights and no licence, and nothing
here counts bytes or FLOPs.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from runners.shapes.parameters import LATENT_ROPE_DIM, count_parameters

Size = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
Layers = Annotated[int, Field(strict=True, ge=1, le=10_000)]
MAX_PARAMETERS = 1e14


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Mixture(Part):
    """`layers` layers of `experts` gated MLPs of width `ffn`; each token goes through `experts_per_token` of them, and
    through a shared MLP of width `shared_ffn` where there is one."""

    experts: Size
    experts_per_token: Size
    ffn: Size
    layers: Size
    shared_ffn: Annotated[int, Field(strict=True, ge=0)] = 0


class LatentAttention(Part):
    """MLA: a token keeps `kv_dim` elements a layer (the position's part in it); queries go through `q_dim`, 0: through
    nothing narrower."""

    kv_dim: Annotated[int, Field(strict=True, gt=LATENT_ROPE_DIM, le=10_000_000)]
    q_dim: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 0


class SlidingWindow(Part):
    """`layers` of the layers see no more than the last `tokens` tokens."""

    tokens: Size
    layers: Size


class Shape(Part):
    """`ffn` is the width of the dense gated MLPs, null where no layer is dense. `attention_layers` of a hybrid are
    those with attention, whose cache grows, null where all have it; its others keep a recurrent state, of
    `state_elements` per sequence in all of them together where that is known."""

    layers: Layers
    hidden_size: Size
    heads: Size
    kv_heads: Size
    head_dim: Size
    ffn: Size | None = None
    vocab_size: Size
    max_model_len: Size
    tied_embeddings: bool = False
    mixture: Mixture | None = None
    latent: LatentAttention | None = None
    window: SlidingWindow | None = None
    attention_layers: Size | None = None
    state_elements: Annotated[int, Field(strict=True, ge=1, le=10**12)] | None = None

    @model_validator(mode="after")
    def layers_hold_together(self) -> Self:
        mixed = self.mixture.layers if self.mixture else 0
        for field, count in (
            ("mixture.layers", mixed),
            ("window.layers", self.window.layers if self.window else 0),
            ("attention_layers", self.attention_layers or 0),
        ):
            if count > self.layers:
                _refuse(field, f"{count} of {self.layers} layers", f"at most {self.layers}")
        if self.ffn is None and mixed < self.layers:
            _refuse("ffn", f"null, and {self.layers - mixed} layers are dense", "the width of their MLP")
        if self.heads % self.kv_heads:
            _refuse("kv_heads", f"{self.kv_heads} with {self.heads} heads", "a divisor of heads")
        if self.mixture and self.mixture.experts_per_token > self.mixture.experts:
            _refuse("mixture.experts_per_token", str(self.mixture.experts_per_token), f"at most {self.mixture.experts}")
        if self.state_elements and not self.attention_layers:
            _refuse("state_elements", str(self.state_elements), "null where every layer has attention")
        return self

    @property
    def num_parameters(self) -> int:
        """Counted from the shape."""
        return count_parameters(self._fields())

    def to_mapping(self) -> dict[str, Any]:
        """Flat, with the keys that a registered model's shape has."""
        return self._fields() | {"parameters": self.num_parameters}

    def _fields(self) -> dict[str, Any]:
        mixture, window, latent = self.mixture, self.window, self.latent
        return {
            "layers": self.layers,
            "hidden_size": self.hidden_size,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "ffn": self.ffn or 0,
            "vocab_size": self.vocab_size,
            "max_model_len": self.max_model_len,
            "tied_embeddings": self.tied_embeddings,
            "experts": mixture.experts if mixture else None,
            "experts_per_token": mixture.experts_per_token if mixture else None,
            "expert_ffn": mixture.ffn if mixture else None,
            "expert_layers": mixture.layers if mixture else None,
            "shared_ffn": mixture.shared_ffn if mixture else None,
            "sliding_window": window.tokens if window else None,
            "sliding_layers": window.layers if window else None,
            "kv_latent_dim": latent.kv_dim if latent else None,
            "q_latent_dim": latent.q_dim if latent else None,
            "attention_layers": self.attention_layers,
            "state_elements": self.state_elements,
        }


class ShapeRecord(Shape):
    """A published model's: `parameters` are those that its makers give, `source` is where the shape is from."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
    parameters: Annotated[float, Field(gt=1e6, lt=MAX_PARAMETERS)]
    source: Annotated[str, Field(min_length=1)]
    confidence: str

    def to_mapping(self) -> dict[str, Any]:
        return self._fields() | {"parameters": round(self.parameters)}


def _refuse(field: str, given: str, allowed: str) -> None:
    text = "{given} is not allowed; allowed: {allowed}"
    raise PydanticCustomError("shape", text, {"field": field, "given": given, "allowed": allowed})
