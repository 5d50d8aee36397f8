"""What another lab says of its runs' results, as far as pages and figures here read it: of these types, or refused.

Records and specs have types of their own; these are the parts that a lab keeps as plain JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from runners.document import UNSTORABLE
from runners.interchange.errors import BadFile


class Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class PercentileSaid(Said):
    value: float | None
    enough: bool = False


class MetricSaid(Said):
    value: float | None
    unit: str = Field(max_length=40)
    n: int
    percentiles: dict[str, PercentileSaid]


class ReasonSaid(Said):
    code: str = Field(max_length=60)
    message: str = Field(max_length=2_000)
    value: float | None = None
    threshold: float | None = None


class SummarySaid(Said):
    metrics: dict[str, MetricSaid] = Field(default_factory=dict)
    valid: bool | None = None
    reasons: list[ReasonSaid] = Field(default_factory=list, max_length=100)
    modelled: bool = False


class PredictedSaid(Said):
    unit: str = Field(max_length=40)
    predicted: float
    low: float | None
    high: float | None
    runs: int | None = None


class PredictionSaid(Said):
    model_config = ConfigDict(extra="allow")

    state: str | None = Field(default=None, max_length=40)
    basis: str = Field(default="", max_length=2_000)
    why_not: str | None = Field(default=None, max_length=2_000)
    metrics: dict[str, PredictedSaid] | None = None


class ImportedSaid(Said):
    """Of a run that was imported there too."""

    tool: str = Field(default="", max_length=40)
    modelled: bool = False
    unmeasured: list[str] = Field(default_factory=list, max_length=100)
    unjudged: list[str] = Field(default_factory=list, max_length=100)


def check_storable(value: Any, where: str) -> None:
    """Raises BadFile where a text or a number in it is none that the database could hold."""
    left: list[tuple[str, Any]] = [(where, value)]
    while left:
        place, found = left.pop()
        if isinstance(found, Mapping | list):
            left += _parts(place, found)
        elif isinstance(found, str) and UNSTORABLE.search(found):
            raise BadFile(_shown(place), "holds a NUL or a surrogate", "text")
        elif isinstance(found, float) and not math.isfinite(found):
            raise BadFile(_shown(place), "is not finite", "a number")


def _parts(place: str, found: Mapping[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(found, list):
        yield from ((f"{place}.{number}", one) for number, one in enumerate(found))
        return
    for key, one in found.items():
        yield f"{place} key", key
        yield f"{place}.{key}", one


def _shown(place: str) -> str:
    return UNSTORABLE.sub("\ufffd", place)[-200:]
