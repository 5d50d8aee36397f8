"""How one engine serves: precision, batching, scheduling."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document


class SchedulerSpec(Document):
    policy: Literal["fcfs"] = "fcfs"
    chunked_prefill: bool = True
    itl_target_s: None = None


class SpeculationSpec(Document):
    kind: Literal["none"] = "none"


class EngineSpec(Document):
    """`weights` int8 is W8A8 (per-channel weights, per-token activations) and costs quality; `activations` auto
    follows it."""

    kind: Literal["builtin"] = "builtin"
    kernels: Literal["auto", "torch"] = "auto"
    weights: Literal["bf16", "int8"] = "bf16"
    activations: Literal["auto", "bf16", "int8"] = "auto"
    kv_cache: Literal["bf16"] = "bf16"
    max_num_seqs: int = Field(default=16, ge=1, le=1024)
    max_num_batched_tokens: int = Field(default=2048, ge=16, le=131_072)
    block_size: Literal[8, 16, 32, 64, 128] = 32
    prefix_cache: bool = True
    scheduler: SchedulerSpec = SchedulerSpec()
    speculation: SpeculationSpec = SpeculationSpec()
    threads: Literal["auto"] | Annotated[int, Field(ge=1, le=256)] = "auto"

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
