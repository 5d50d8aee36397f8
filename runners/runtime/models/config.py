"""What a decoder is, in numbers: its shape, how each layer attends, and the few choices in which families differ.

Read from a model's files by loading/; computed by decoder.py. It imports no torch, so that a model can be described
without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Every angle divided by `factor` (Chen et al. 2023, position interpolation)."""

    factor: float


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Long wavelengths divided by `factor`, short ones kept, those in between blended (Llama 3.1)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_len: int


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """YaRN (Peng et al. 2023): a ramp over the dimensions between the kept and the divided; rotated vectors are
    stretched by `attention_factor`."""

    factor: float
    original_max_len: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True


@dataclass(frozen=True, slots=True)
class TableScaling:
    """Each pair's angle divided by its own number, which the file holds as a tensor (head_dim / 2,)."""

    tensor: str


RopeScaling = LinearScaling | Llama3Scaling | YarnScaling | TableScaling


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary embedding: pair j of a head turns by theta^(-2j / head_dim) per position, then scaled."""

    theta: float
    scaling: RopeScaling | None = None


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """How one layer differs: `rope` None leaves positions out; `window` is how many tokens, itself included, a token
    sees, None all; `experts` whether its feed-forward block is a mixture."""

    rope: RopeConfig | None
    window: int | None = None
    experts: bool = False


@dataclass(frozen=True, slots=True)
class ExpertsConfig:
    """A mixture: `per_token` of `count` gated blocks of width `ffn_size`. `normalise` makes the chosen ones' shares sum
    to 1."""

    count: int
    per_token: int
    ffn_size: int
    normalise: bool


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a decoder and its family's choices. `max_model_len` is the longest context it was trained for.

    `ffn_size` is the width of the dense layers' gated block. `qk_norm` norms each head of q and k before they are
    rotated; `post_norms` norms what attention and feed-forward give before it is added; `float32_norms` keeps the
    norms' weights in float32. Soft-caps bound attention scores and logits to ± the number: cap · tanh(x / cap).
    """

    architecture: str
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    norm_eps: float
    max_model_len: int
    tied_embeddings: bool
    query_scale: float
    layers: tuple[LayerConfig, ...]
    experts: ExpertsConfig | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    float32_norms: bool = False
    activation: Activation = "silu"
    embedding_scale: float = 1.0
    attention_softcap: float | None = None
    logit_softcap: float | None = None

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    @property
    def qkv_size(self) -> int:
        return self.q_size + 2 * self.kv_size

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The distinct sliding windows of its layers."""
        return tuple(dict.fromkeys(layer.window for layer in self.layers))

    @property
    def ropes(self) -> tuple[RopeConfig, ...]:
        """The distinct rotary embeddings of its layers."""
        return tuple(dict.fromkeys(layer.rope for layer in self.layers if layer.rope is not None))
