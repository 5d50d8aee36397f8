"""What the clients send: lengths, arrivals, sampling."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document

Tokens = Annotated[int, Field(ge=1, le=131_072)]


class FixedLen(Document):
    dist: Literal["fixed"]
    tokens: Tokens

    @property
    def longest(self) -> int:
        return self.tokens


class UniformLen(Document):
    dist: Literal["uniform"]
    min_tokens: Tokens
    max_tokens: Tokens

    @model_validator(mode="after")
    def ordered(self) -> Self:
        if self.min_tokens > self.max_tokens:
            raise PydanticCustomError(
                "order", "min_tokens is above max_tokens",
                {"field": "min_tokens", "allowed": f"at most {self.max_tokens}"},
            )  # fmt: skip
        return self

    @property
    def longest(self) -> int:
        return self.max_tokens


class LognormalLen(Document):
    """Lognormal in tokens: the median and the sigma of the logarithm; draws are clipped to [1, max_tokens]."""

    dist: Literal["lognormal"]
    median_tokens: Tokens
    sigma: float = Field(gt=0, le=4)
    max_tokens: Tokens

    @property
    def longest(self) -> int:
        return self.max_tokens


LengthSpec = Annotated[FixedLen | UniformLen | LognormalLen, Field(discriminator="dist")]


class ClosedArrival(Document):
    """`max_concurrency` users, each with one request in flight; the next is sent when the last has ended."""

    kind: Literal["closed"]
    max_concurrency: int = Field(ge=1, le=4096)


class OpenArrival(Document):
    """Arrivals at `request_rate` per second with gamma gaps: `burstiness` 1 is Poisson, lower is burstier."""

    kind: Literal["open"]
    request_rate: float = Field(gt=0, le=10_000)
    burstiness: float = Field(default=1.0, gt=0, le=100)


ArrivalSpec = Annotated[ClosedArrival | OpenArrival, Field(discriminator="kind")]


class WarmupSpec(Document):
    num_requests: int = Field(default=4, ge=0, le=10_000)


class SamplingSpec(Document):
    temperature: float = Field(default=0.0, ge=0, le=2)
    top_k: int = Field(default=0, ge=0, le=1_000_000)
    top_p: float = Field(default=1.0, gt=0, le=1)
    ignore_eos: bool = True


class WorkloadSpec(Document):
    """`synthetic` prompts are random token ids, `text` prompts are cut from the text that the project ships."""

    kind: Literal["synthetic", "text"]
    input_len: LengthSpec = FixedLen(dist="fixed", tokens=128)
    output_len: LengthSpec = FixedLen(dist="fixed", tokens=32)
    arrival: ArrivalSpec
    num_requests: int | None = Field(default=None, ge=1, le=1_000_000)
    duration_s: float | None = Field(default=None, gt=0, le=86_400)
    warmup: WarmupSpec = WarmupSpec()
    sampling: SamplingSpec = SamplingSpec()
    classes: Annotated[tuple[()], Field()] = ()
    shared_prefix: None = None

    @model_validator(mode="after")
    def one_end(self) -> Self:
        if (self.num_requests is None) == (self.duration_s is None):
            raise PydanticCustomError(
                "one_of", "give num_requests or duration_s, exactly one of them",
                {"field": "num_requests", "allowed": ["num_requests", "duration_s"]},
            )  # fmt: skip
        return self
