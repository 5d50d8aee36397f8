"""How long a session pauses: the time that a person thinks, or that a tool takes, in seconds."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from runners.spec.base import Document
from runners.spec.lengths import check_order

Seconds = Annotated[float, Field(ge=0, le=3_600)]
LongSeconds = Annotated[float, Field(gt=0, le=3_600)]


class FixedPause(Document):
    dist: Literal["fixed"]
    value_s: Seconds

    @property
    def mean_s(self) -> float:
        return self.value_s


class UniformPause(Document):
    dist: Literal["uniform"]
    min_s: Seconds
    max_s: LongSeconds

    @model_validator(mode="after")
    def ordered(self) -> Self:
        check_order(self.min_s, self.max_s, "s")
        return self

    @property
    def mean_s(self) -> float:
        return (self.min_s + self.max_s) / 2


class ExponentialPause(Document):
    """Draws above `max_s` count as `max_s`; `mean_s` is the mean without that."""

    dist: Literal["exponential"]
    mean_s: LongSeconds
    max_s: LongSeconds = 3_600.0


class LognormalPause(Document):
    """Lognormal in seconds: the median and the sigma of the logarithm. Draws above `max_s` count as `max_s`."""

    dist: Literal["lognormal"]
    median_s: LongSeconds
    sigma: float = Field(gt=0, le=4)
    max_s: LongSeconds = 3_600.0

    @property
    def mean_s(self) -> float:
        return min(self.median_s * math.exp(self.sigma**2 / 2), self.max_s)


PauseSpec = Annotated[FixedPause | UniformPause | ExponentialPause | LognormalPause, Field(discriminator="dist")]
