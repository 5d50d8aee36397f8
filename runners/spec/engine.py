"""How one engine serves: precision, batching, scheduling, speculation, and what its prefix cache spills into."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import SLOWEST_BYTES_PER_S, Document, Slug

Profile = Literal[
    "auto", "vllm", "sglang", "tensorrt-llm", "tensorrt-llm-mlperf", "llama.cpp", "neuronx", "built-in", "kog"
]
Weights = Literal["bf16", "int8", "fp8", "mxint8", "nvfp4", "mxfp4", "int4", "lns8"]
KvCache = Literal["bf16", "fp8"]
Probability = Annotated[float, Field(ge=0, le=1)]


class SchedulerSpec(Document):
    """`fcfs` serves requests as they come, whatever their priority; `priority` those of a lower number first."""

    policy: Literal["fcfs", "priority"] = "fcfs"
    chunked_prefill: bool = True
    itl_target_s: None = None


class SpeculationSpec(Document):
    """A step checks up to `max_draft` drafted tokens of each sequence. Drafts come from the text so far (`ngram`), from
    a smaller model (`draft`, with `model`), or from the first `layers` of the model itself (`self`).

    `acceptance` is what a modelled node needs: the chance that a drafted token is accepted when all before it were, as
    one number or one per position (the last one holds for all after it). What a kind does not use may be there all the
    same, so that `kind` can be an axis.
    """

    kind: Literal["none", "ngram", "draft", "self"] = "none"
    max_draft: int = Field(default=4, ge=1, le=64)
    model: Slug | None = None
    layers: int | None = Field(default=None, ge=1, le=10_000)
    acceptance: Probability | Annotated[tuple[Probability, ...], Field(min_length=1, max_length=64)] | None = None

    @model_validator(mode="after")
    def kind_has_its_keys(self) -> Self:
        needed = {"draft": "model", "self": "layers"}.get(self.kind)
        if needed and getattr(self, needed) is None:
            raise PydanticCustomError(
                "needed", "{kind} speculation needs {needed}",
                {"field": needed, "kind": self.kind, "needed": needed,
                 "allowed": "the name of a smaller model" if needed == "model" else "how many layers draft"},
            )  # fmt: skip
        return self

    def accepts(self, position: int) -> float:
        """The chance for the drafted token at `position` (from 0). Raises ValueError where no profile is given."""
        if self.acceptance is None:
            raise ValueError("acceptance: none is given")
        if isinstance(self.acceptance, tuple):
            return self.acceptance[min(position, len(self.acceptance) - 1)]
        return self.acceptance


class TierSpec(Document):
    """Memory below the chip's own that keeps what its prefix cache drops; `bytes_per_s` and `latency_s` are those of
    bringing blocks back, of one engine."""

    capacity_bytes: float = Field(gt=0, le=1e18)
    bytes_per_s: float = Field(ge=SLOWEST_BYTES_PER_S, le=1e16)
    latency_s: float = Field(default=0.0, ge=0, le=10)


class PrefixTiers(Document):
    """`host` is the memory of the engine's own host, `remote` a store that it shares over the network."""

    host: TierSpec | None = None
    remote: TierSpec | None = None


class EngineSpec(Document):
    """`weights` int8 is W8A8 (per-channel weights, per-token activations) and costs quality; `activations` auto
    follows it. Formats beyond bf16 and int8, tiers, speculation and `profile` (the engine whose overheads and
    efficiencies a cost model has) are for modelled nodes.

    `kind` external or managed is another engine of a node, by the `name` that its operator lists it with. A name may
    stay beside the built-in engine, so that `kind` can be an axis: its runs then go to nodes that offer that engine,
    and both are compared on one node."""

    kind: Literal["builtin", "external", "managed"] = "builtin"
    name: Slug | None = None
    profile: Profile = "auto"
    kernels: Literal["auto", "torch"] = "auto"
    weights: Weights = "bf16"
    activations: Literal["auto", "bf16", "int8"] = "auto"
    kv_cache: KvCache = "bf16"
    max_num_seqs: int = Field(default=16, ge=1, le=16_384)
    max_num_batched_tokens: int = Field(default=2048, ge=16, le=1_048_576)
    block_size: Literal[8, 16, 32, 64, 128] = 32
    prefix_cache: bool = True
    prefix_tiers: PrefixTiers = PrefixTiers()
    scheduler: SchedulerSpec = SchedulerSpec()
    speculation: SpeculationSpec = SpeculationSpec()
    threads: Literal["auto"] | Annotated[int, Field(ge=1, le=256)] = "auto"

    @model_validator(mode="after")
    def other_engine_has_a_name(self) -> Self:
        if self.kind != "builtin" and self.name is None:
            raise PydanticCustomError(
                "needed", "{kind} needs the name of an engine",
                {"field": "name", "kind": self.kind, "allowed": "a name from the list of a node's operator"},
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def combination_exists(self) -> Self:
        if self.activations not in ("auto", self.weights):
            raise PydanticCustomError(
                "impossible_combination",
                "activations {activations} with weights {weights} has no kernel",
                {"field": "activations", "activations": self.activations, "weights": self.weights,
                 "allowed": ["auto", self.weights]},
            )  # fmt: skip
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise PydanticCustomError(
                "impossible_combination",
                "max_num_batched_tokens {tokens} is below max_num_seqs {seqs}: a step could not decode every sequence",
                {"field": "max_num_batched_tokens", "tokens": self.max_num_batched_tokens,
                 "seqs": self.max_num_seqs, "allowed": f"at least {self.max_num_seqs}"},
            )  # fmt: skip
        return self
