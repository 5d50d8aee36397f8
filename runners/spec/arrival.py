"""When clients send: in a closed loop, in an open one, in stages of either, or as it was recorded."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document

LONGEST_S = 604_800.0
"""A week: what a load may take on the clock that it runs by, which on a modelled node costs nothing."""
MAX_STAGES = 100


class ClosedArrival(Document):
    """`max_concurrency` users, each with one request (or session) under way; the next begins when the last has
    ended."""

    kind: Literal["closed"]
    max_concurrency: int = Field(ge=1, le=65_536)


class OpenArrival(Document):
    """Arrivals at `request_rate` per second with gamma gaps: `burstiness` 1 is Poisson, lower is burstier (at
    0.01 hundreds come at once). Of sessions it is their beginnings that arrive."""

    kind: Literal["open"]
    request_rate: float = Field(gt=0, le=10_000)
    burstiness: float = Field(default=1.0, ge=0.01, le=100)


class StageSpec(Document):
    """`duration_s` at one level: so many requests per second, or so many users. With `ramp: linear` the level goes
    evenly from that of the stage before (0 before the first) to this one over the stage's time."""

    duration_s: float = Field(gt=0, le=86_400)
    request_rate: float | None = Field(default=None, ge=0, le=10_000)
    max_concurrency: int | None = Field(default=None, ge=0, le=65_536)
    ramp: Literal["step", "linear"] = "step"

    @model_validator(mode="after")
    def one_level(self) -> Self:
        if (self.request_rate is None) == (self.max_concurrency is None):
            raise PydanticCustomError(
                "one_of", "give request_rate or max_concurrency, exactly one of them",
                {"field": "request_rate", "allowed": ["request_rate", "max_concurrency"]},
            )  # fmt: skip
        return self

    @property
    def level(self) -> float:
        """Requests per second, or users."""
        return float(self.max_concurrency or 0) if self.request_rate is None else self.request_rate


class StagedArrival(Document):
    """Stages one after another, all of them rates (an open loop) or all of them users (a closed one). The load lasts as
    long as they do together; the warm-up runs at the first level above 0. `burstiness` is as in an open loop."""

    kind: Literal["stages"]
    stages: tuple[StageSpec, ...] = Field(min_length=1, max_length=MAX_STAGES)
    burstiness: float = Field(default=1.0, ge=0.01, le=100)

    @field_validator("stages")
    @classmethod
    def levels_of_one_kind(cls, stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
        rates = stages[0].request_rate is not None
        for place, stage in enumerate(stages):
            if (stage.request_rate is not None) != rates:
                name = "request_rate" if rates else "max_concurrency"
                raise PydanticCustomError(
                    "mixed_levels", "stages are all rates or all users; the first one gives {name}",
                    {"field": f"{place}", "name": name, "allowed": [name]},
                )  # fmt: skip
        if not any(stage.level for stage in stages):
            raise PydanticCustomError(
                "nothing_sent", "every stage has the level 0", {"field": "", "allowed": "one stage above 0 at least"}
            )
        return stages

    @property
    def is_open(self) -> bool:
        return self.stages[0].request_rate is not None

    @property
    def lasts_s(self) -> float:
        return sum(stage.duration_s for stage in self.stages)

    @property
    def highest(self) -> float:
        return max(stage.level for stage in self.stages)

    @property
    def warmup_level(self) -> float:
        return next(stage.level for stage in self.stages if stage.level)

    @property
    def expected_requests(self) -> float:
        """Of an open loop: the rate's integral over all stages."""
        before, total = 0.0, 0.0
        for stage in self.stages:
            mean = (before + stage.level) / 2 if stage.ramp == "linear" else stage.level
            total, before = total + mean * stage.duration_s, stage.level
        return total


class RecordedArrival(Document):
    """Requests come when their trace says, scaled by its `time_scale`, whatever the server does."""

    kind: Literal["recorded"]


ArrivalSpec = Annotated[ClosedArrival | OpenArrival | StagedArrival | RecordedArrival, Field(discriminator="kind")]
