"""What the clients send: lengths, arrivals, sampling."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document

Tokens = Annotated[int, Field(ge=1, le=4_194_304)]
MAX_OUTPUT_TOKENS = 131_072
MAX_REQUESTS = 1_000_000
LONGEST_S = 604_800.0
"""A week: what a load may take on the clock that it runs by, which on a modelled node costs nothing."""


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
    max_concurrency: int = Field(ge=1, le=65_536)


class OpenArrival(Document):
    """Arrivals at `request_rate` per second with gamma gaps: `burstiness` 1 is Poisson, lower is burstier (at
    0.01 hundreds come at once)."""

    kind: Literal["open"]
    request_rate: float = Field(gt=0, le=10_000)
    burstiness: float = Field(default=1.0, ge=0.01, le=100)


ArrivalSpec = Annotated[ClosedArrival | OpenArrival, Field(discriminator="kind")]


class WarmupSpec(Document):
    num_requests: int = Field(default=4, ge=0, le=10_000)


class SamplingSpec(Document):
    temperature: float = Field(default=0.0, ge=0, le=2)
    top_k: int = Field(default=0, ge=0, le=1_000_000)
    top_p: float = Field(default=1.0, gt=0, le=1)
    ignore_eos: bool = True


class SharedPrefixSpec(Document):
    """Every prompt begins with one of `groups` prefixes of `prefix_tokens` tokens, drawn evenly; its own tokens, as
    many as `input_len` says, come after it."""

    groups: int = Field(ge=1, le=1_000_000)
    prefix_tokens: Tokens


class WorkloadSpec(Document):
    """`synthetic` prompts are random token ids, `text` prompts are cut from the text that the project ships."""

    kind: Literal["synthetic", "text"]
    input_len: LengthSpec = FixedLen(dist="fixed", tokens=128)
    output_len: LengthSpec = FixedLen(dist="fixed", tokens=32)
    arrival: ArrivalSpec
    num_requests: int | None = Field(default=None, ge=1, le=MAX_REQUESTS)
    duration_s: float | None = Field(default=None, gt=0, le=86_400)
    warmup: WarmupSpec = WarmupSpec()
    sampling: SamplingSpec = SamplingSpec()
    classes: Annotated[tuple[()], Field()] = ()
    shared_prefix: SharedPrefixSpec | None = None

    @model_validator(mode="after")
    def one_end(self) -> Self:
        if (self.num_requests is None) == (self.duration_s is None):
            raise PydanticCustomError(
                "one_of", "give num_requests or duration_s, exactly one of them",
                {"field": "num_requests", "allowed": ["num_requests", "duration_s"]},
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def outputs_can_be_kept(self) -> Self:
        if self.output_len.longest > MAX_OUTPUT_TOKENS:
            raise PydanticCustomError(
                "too_long", "an answer of {longest} tokens has more token times than a record keeps",
                {"field": "output_len", "longest": self.output_len.longest,
                 "allowed": f"at most {MAX_OUTPUT_TOKENS} tokens"},
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def arrivals_come_to_an_end(self) -> Self:
        if not isinstance(self.arrival, OpenArrival):
            return self
        expected = self.arrival.request_rate * (self.duration_s or 0.0)
        if expected > MAX_REQUESTS:
            raise PydanticCustomError(
                "too_many", "about {requests} requests would arrive in {duration_s} s",
                {"field": "arrival.request_rate", "requests": round(expected), "duration_s": self.duration_s,
                 "allowed": f"at most {MAX_REQUESTS} requests: a lower rate, or a shorter duration_s"},
            )  # fmt: skip
        requests = max(self.num_requests or 0, self.warmup.num_requests)
        if requests > self.arrival.request_rate * LONGEST_S:
            raise PydanticCustomError(
                "too_long", "{requests} requests at {rate} per second arrive over more than a week",
                {"field": "arrival.request_rate", "requests": requests, "rate": self.arrival.request_rate,
                 "allowed": f"at least {requests / LONGEST_S:.3g}, or fewer requests"},
            )  # fmt: skip
        return self

    @property
    def longest_prompt(self) -> int:
        """Tokens, the shared prefix among them."""
        return self.input_len.longest + (self.shared_prefix.prefix_tokens if self.shared_prefix else 0)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and answer together."""
        return self.longest_prompt + self.output_len.longest
