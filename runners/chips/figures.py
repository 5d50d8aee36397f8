"""Numbers of chip records: each in one unit, within bounds that a figure written in another unit falls out of.

The bounds are wide enough for every chip and rack that exists or is announced, and narrow enough that gigabytes for
bytes, terabytes per second for bytes per second or microseconds for seconds are refused. They say nothing of whether
a figure is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Bounds:
    """What a figure in `unit` may be. A figure outside raises an error that gives the figure and what is allowed."""

    low: float
    high: float
    unit: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def check(self, value: float) -> float:
        if not self.low <= value <= self.high:
            raise PydanticCustomError(
                "out_of_range",
                "{value} is not plausible in {unit}; allowed: {low} to {high} {unit}",
                {"value": f"{value:g}", "unit": self.unit, "low": f"{self.low:g}", "high": f"{self.high:g}"},
            )
        return value


Strict = Field(strict=True)
Capacity = Annotated[int, Strict, Bounds(1e8, 2e14, "bytes")]
Sram = Annotated[int, Strict, Bounds(1e6, 1e12, "bytes")]
Bandwidth = Annotated[float, Strict, Bounds(1e9, 1e17, "bytes/s")]
LinkRate = Annotated[float, Strict, Bounds(1e9, 1e14, "bytes/s")]
Latency = Annotated[float, Strict, Bounds(1e-8, 1e-3, "s")]
Teraflops = Annotated[float, Strict, Bounds(0.01, 5e6, "TFLOP/s")]
Watts = Annotated[float, Strict, Bounds(1, 30_000, "W")]
SystemWatts = Annotated[float, Strict, Bounds(5, 2e6, "W")]
UsdPerHour = Annotated[float, Strict, Bounds(0.005, 10_000, "USD/h")]
UsdPurchase = Annotated[float, Strict, Bounds(10, 1e8, "USD")]
Fraction = Annotated[float, Strict, Bounds(0.01, 1.0, "of the peak")]
Overhead = Annotated[float, Strict, Bounds(1e-8, 1e-2, "s")]
Count = Annotated[int, Strict, Bounds(1, 100_000, "chips")]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
