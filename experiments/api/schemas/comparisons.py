"""Comparisons, as the API gives them.

Their parts are plain models: there are tens of thousands, and a Schema looks at each value by itself.
"""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import BaseModel, Field


class ComparedRun(BaseModel):
    id: int
    repeat: int
    valid: bool
    reasons: list[str]
    output_tokens: int | None


class ComparedMetric(BaseModel):
    """Over the trial's valid runs. `low` and `high` bound a 95 % interval; null where there is none to give."""

    median: float
    low: float | None
    high: float | None
    n: int
    unit: str
    method: str
    few: int | None = Field(description="Of a percentile with too few samples in a run: how many. Null: enough.")
    assumed: bool = Field(description="Whether it rests on a price or a power that was assumed.")
    source: str | None = Field(description="Of energy: what its power is from, as rapl, nvml, modelled, assumed.")


class ComparedTrial(BaseModel):
    id: int
    experiment_id: int
    settings: dict[str, Any]
    label: str = Field(description="On a ladder, what its rung is called.")
    baseline: bool
    modelled: bool
    imported: bool
    nodes: list[str]
    runs: list[ComparedRun]
    metrics: dict[str, ComparedMetric] = Field(description="By name, as METRICS.md defines them.")


class Difference(BaseModel):
    """A trial less the baseline. A difference is called one only where the interval excludes 0 and the size is above
    the node's noise floor."""

    metric: str
    trial: int
    settings: dict[str, Any]
    baseline: dict[str, Any]
    difference: float
    relative: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    noise_floor: float | None
    noise_source: str | None = Field(description="The repeats compared, or else the node's history with n and date.")
    mixes_modelled: bool
    mixes_energy: str | None = Field(description="Of energy: its sources, where they are not one.")
    assumed: bool = Field(description="Whether it rests on a price or a power that was assumed.")
    mixes_imported: bool = Field(description="One of the two was imported: seen beside each other, never judged.")
    is_difference: bool


class MetricMeaning(BaseModel):
    unit: str
    more_is_better: bool | None


class ComparisonOut(Schema):
    trials: list[ComparedTrial]
    differences: list[Difference]
    metrics: dict[str, MetricMeaning]
