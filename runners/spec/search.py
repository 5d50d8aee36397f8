"""Experiments that plan their own next runs: repeats until an interval is tight, and searches over settings.

Whether a figure of that name exists is for the control plane to say, as is which runs come next
(experiments.search).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document, Setting, values_differ

MAX_SPACE = 12
MAX_SEARCHED = 400
CONCURRENCY = "workload.arrival.max_concurrency"
REQUEST_RATE = "workload.arrival.request_rate"
MetricName = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,60}$")]


class Until(Document):
    """Repeats of every trial until the half-width of `metric`'s 95 % interval is at most `interval` of its mean in each
    trial; at least `min` and at most `max` repeats."""

    metric: MetricName
    interval: float = Field(gt=0, le=1)
    max: int = Field(ge=2, le=100)
    min: int = Field(default=5, ge=2, le=100)

    @model_validator(mode="before")
    @classmethod
    def least_fits_most(cls, value: Any) -> Any:
        """Without a `min` of its own, a `max` below the usual one is both."""
        if isinstance(value, dict) and "min" not in value and isinstance(value.get("max"), int):
            return {**value, "min": max(2, min(5, value["max"]))}
        return value

    @model_validator(mode="after")
    def ordered(self) -> Self:
        if self.min > self.max:
            raise PydanticCustomError("order", "min is above max", {"field": "min", "allowed": f"at most {self.max}"})
        return self


class RepeatsUntil(Document):
    until: Until


class LoadSearch(Document):
    """The highest load under the document's SLO, between `low` and `high`.

    A level passes where the run meets the SLO and at least `min_success` of its requests are ok. Both ends of the
    answer are measured `confirm` times; what they then are says the majority of these runs, or `all`. `tolerance` is
    the width of the answer relative to its lower end; for whole numbers the step is never below 1.
    """

    maximize: Literal["workload.arrival.max_concurrency", "workload.arrival.request_rate"]
    under: Literal["slo"] = "slo"
    low: float = Field(gt=0, le=65_536)
    high: float = Field(gt=0, le=65_536)
    tolerance: float = Field(default=0.05, ge=0.001, le=1)
    confirm: int = Field(default=3, ge=1, le=20)
    confirm_by: Literal["majority", "all"] = "majority"
    min_success: float = Field(default=0.95, gt=0, le=1)

    @model_validator(mode="after")
    def bounds_hold(self) -> Self:
        if self.low >= self.high:
            raise PydanticCustomError(
                "order", "low is not below high", {"field": "low", "allowed": f"below {self.high:g}"}
            )
        for name, value in (("low", self.low), ("high", self.high)):
            if self.whole and value != int(value):
                raise PydanticCustomError(
                    "whole", "{value} users at once are no whole number",
                    {"field": name, "value": value, "allowed": "a whole number"},
                )  # fmt: skip
        if self.low < 1e-3:
            raise PydanticCustomError("too_low", "low is too low", {"field": "low", "allowed": "at least 0.001"})
        return self

    @property
    def whole(self) -> bool:
        """Whether its levels are whole numbers."""
        return self.maximize == CONCURRENCY

    @property
    def path(self) -> str:
        return self.maximize


class Range(Document):
    """Numbers from `low` to `high`; whole ones where both ends are. With `log` small values are tried as densely as
    large ones, by ratio."""

    low: int | float
    high: int | float
    log: bool = False

    @model_validator(mode="after")
    def ordered(self) -> Self:
        if self.low >= self.high:
            raise PydanticCustomError(
                "order", "low is not below high", {"field": "low", "allowed": f"below {self.high:g}"}
            )
        if self.log and self.low <= 0:
            raise PydanticCustomError(
                "order", "a logarithmic range starts above 0", {"field": "low", "allowed": "above 0"}
            )
        return self

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def size(self) -> float:
        return float(self.high - self.low + 1) if self.whole else math.inf

    @property
    def ends(self) -> tuple[Setting, ...]:
        return self.low, self.high


Choices = Annotated[tuple[Setting, ...], Field(min_length=1, max_length=100)]
Space = Annotated[dict[str, Range | Choices], Field(min_length=1, max_length=MAX_SPACE), AfterValidator(values_differ)]


class SettingsSearch(Document):
    """The settings of `space` with the best `optimize`, a figure that has a better direction.

    Of `trials` settings tried, `repeats` times each, the best and its runner-up are measured `confirm` times more, and
    compared by those runs alone.
    """

    optimize: MetricName
    space: Space
    trials: int = Field(default=30, ge=2, le=MAX_SEARCHED)
    repeats: int = Field(default=1, ge=1, le=20)
    confirm: int = Field(default=3, ge=2, le=20)


class ParetoSpec(Document):
    """Two figures that pull against each other, and the settings to try for their front."""

    metrics: Annotated[tuple[MetricName, ...], Field(min_length=2, max_length=2)]
    space: Space
    trials: int = Field(default=30, ge=2, le=MAX_SEARCHED)
    repeats: int = Field(default=1, ge=1, le=20)

    @model_validator(mode="after")
    def metrics_differ(self) -> Self:
        if self.metrics[0] == self.metrics[1]:
            raise PydanticCustomError(
                "repeated_value", "a front needs two figures", {"field": "metrics.1", "allowed": "another figure"}
            )
        return self


class ParetoSearch(Document):
    pareto: ParetoSpec


KINDS = {"maximize": "LoadSearch", "optimize": "SettingsSearch", "pareto": "ParetoSearch"}


def _which(value: Any) -> str | None:
    """The kind of search that a mapping is: by the key that only this kind has."""
    if isinstance(value, Document):
        return type(value).__name__
    keys = value if isinstance(value, dict) else {}
    return next((kind for key, kind in KINDS.items() if key in keys), None)


SearchSpec = Annotated[
    Annotated[LoadSearch, Tag("LoadSearch")]
    | Annotated[SettingsSearch, Tag("SettingsSearch")]
    | Annotated[ParetoSearch, Tag("ParetoSearch")],
    Discriminator(
        _which,
        custom_error_type="which_search",
        custom_error_message="a search is a mapping with one of: maximize, optimize, pareto",
    ),
]
