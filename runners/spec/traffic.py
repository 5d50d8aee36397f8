"""What requests have beyond their lengths: prefixes that they share, thinking before the answer, classes of traffic."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from runners.spec.base import Document, Slug
from runners.spec.lengths import LengthSpec, Tokens, check_order
from runners.spec.slo import SloSpec

MAX_CLASSES = 20
SHARES_TOLERANCE = 0.001
Factor = Annotated[float, Field(ge=0, le=20)]


class SharedPrefixSpec(Document):
    """Prompts (of sessions, their first ones) begin with one of `groups` prefixes of `prefix_tokens` tokens, drawn
    evenly; their own tokens, as many as `input_len` says, come after it. Only `share` of them do: the others begin with
    as many tokens that no other prompt has, so that lengths are the same at any share."""

    groups: int = Field(ge=1, le=1_000_000)
    prefix_tokens: Tokens
    share: float = Field(default=1.0, ge=0, le=1)


class UniformFactor(Document):
    dist: Literal["uniform"]
    min_factor: Factor
    max_factor: Factor

    @model_validator(mode="after")
    def ordered(self) -> Self:
        check_order(self.min_factor, self.max_factor, "factor")
        return self

    @property
    def longest(self) -> float:
        return self.max_factor


class LognormalFactor(Document):
    """The median and the sigma of the logarithm; draws above `max_factor` count as `max_factor`."""

    dist: Literal["lognormal"]
    median_factor: float = Field(gt=0, le=20)
    sigma: float = Field(gt=0, le=4)
    max_factor: float = Field(gt=0, le=20)

    @property
    def longest(self) -> float:
        return self.max_factor


class ThinkingSpec(Document):
    """A reasoning model: before an answer of n tokens come n × `factor` × `effort` tokens of thinking, rounded.

    Later prompts of a session hold the answers alone, as chat templates have it; with `in_history` the thinking too.
    """

    factor: Factor | Annotated[UniformFactor | LognormalFactor, Field(discriminator="dist")] = 5.0
    effort: float = Field(default=1.0, ge=0, le=20)
    in_history: bool = False

    @property
    def mean(self) -> float:
        """Thinking tokens per token of the answer, about."""
        match self.factor:
            case UniformFactor():
                factor = (self.factor.min_factor + self.factor.max_factor) / 2
            case LognormalFactor():
                factor = min(self.factor.median_factor * math.exp(self.factor.sigma**2 / 2), self.factor.max_factor)
            case _:
                factor = self.factor
        return factor * self.effort

    @property
    def most(self) -> float:
        """Thinking tokens per token of the answer, at most."""
        return (self.factor if isinstance(self.factor, float) else self.factor.longest) * self.effort

    def longest(self, answer_tokens: int) -> int:
        """Thinking and an answer of so many tokens, at most."""
        return answer_tokens + round(answer_tokens * self.most)


class TrafficClass(Document):
    """A part of the traffic: `share` of all requests (or sessions), each of which belongs to it whole. A lower
    `priority` goes sooner, where the scheduler's policy is by priority. What it leaves out (lengths, objective) is as
    for the whole workload."""

    name: Slug
    share: float = Field(gt=0, le=1)
    priority: int = Field(default=0, ge=-1000, le=1000)
    slo: SloSpec | None = None
    input_len: LengthSpec | None = None
    output_len: LengthSpec | None = None
