"""Service objectives: what an answer, or a percentile of a run's answers, must keep to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from runners.spec.base import Document

Objective = Annotated[float, Field(gt=0, le=86_400)]
PercentileName = Literal["p50", "p90", "p95", "p99"]


class SloSpec(Document):
    """Objectives in seconds. A bare number binds every request; `{p95: x}` binds that percentile of the run."""

    ttft_s: Objective | dict[PercentileName, Objective] | None = None
    tpot_s: Objective | dict[PercentileName, Objective] | None = None
    e2el_s: Objective | dict[PercentileName, Objective] | None = None
