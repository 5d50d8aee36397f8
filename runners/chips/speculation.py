"""Figures that stand in for what a vendor has not disclosed. Nothing uses them unless it is told to."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.chips.figures import Record, Text


class Speculation(Record):
    """`figures` by dotted path, in the record's own units. The truth may lie anywhere from `low_x` to `high_x` times
    each; `basis` says where they were taken from."""

    figures: Annotated[dict[str, float], Field(min_length=1)]
    low_x: Annotated[float, Field(gt=0, le=1)]
    high_x: Annotated[float, Field(ge=1, le=10)]
    basis: Text

    @model_validator(mode="after")
    def is_a_band(self) -> Self:
        if self.low_x == self.high_x:
            raise PydanticCustomError(
                "band", "low_x and high_x are both {x}: no band", {"field": "low_x", "x": self.low_x}
            )
        return self
