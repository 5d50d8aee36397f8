"""How many: tokens of a prompt or an answer, turns of a session, as one number or a distribution."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document

Tokens = Annotated[int, Field(ge=1, le=4_194_304)]
MAX_TURNS = 1_000
Turns = Annotated[int, Field(ge=1, le=MAX_TURNS)]


def check_order(least: float, most: float, name: str) -> None:
    """Raises where a range called `min_{name}` to `max_{name}` runs backwards."""
    if least > most:
        raise PydanticCustomError(
            "order", "min_{name} is above max_{name}",
            {"field": f"min_{name}", "name": name, "allowed": f"at most {most:g}"},
        )  # fmt: skip


class FixedLen(Document):
    dist: Literal["fixed"]
    tokens: Tokens

    @property
    def shortest(self) -> int:
        return self.tokens

    @property
    def longest(self) -> int:
        return self.tokens


class UniformLen(Document):
    dist: Literal["uniform"]
    min_tokens: Tokens
    max_tokens: Tokens

    @model_validator(mode="after")
    def ordered(self) -> Self:
        check_order(self.min_tokens, self.max_tokens, "tokens")
        return self

    @property
    def shortest(self) -> int:
        return self.min_tokens

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
    def shortest(self) -> int:
        return 1

    @property
    def longest(self) -> int:
        return self.max_tokens


LengthSpec = Annotated[FixedLen | UniformLen | LognormalLen, Field(discriminator="dist")]


class FixedCount(Document):
    dist: Literal["fixed"]
    count: Turns

    @property
    def most(self) -> int:
        return self.count


class UniformCount(Document):
    """Every whole number from `min_count` to `max_count` is as likely."""

    dist: Literal["uniform"]
    min_count: Turns
    max_count: Turns

    @model_validator(mode="after")
    def ordered(self) -> Self:
        check_order(self.min_count, self.max_count, "count")
        return self

    @property
    def most(self) -> int:
        return self.max_count


CountSpec = Annotated[FixedCount | UniformCount, Field(discriminator="dist")]
