"""Experiments and their trials, as the API gives them, and what a change of one takes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from experiments.api.schemas.common import PageOut, StrictBody
from experiments.api.schemas.runs import RunInTrial
from experiments.api.search_out import SearchOut
from labsite.error_body import FieldFault


class EditIn(StrictBody):
    """What is left out stays as it is. The rules are those of the document."""

    name: str | None = None
    question: str | None = None
    tags: list[str] | None = None
    priority: int | None = Field(None, description="−100 to 100; queued runs of a higher priority go first.")


class CloneIn(StrictBody):
    name: str | None = None
    set: dict[str, Any] | None = Field(None, description="Values by dotted path, put into the document.")
    document: dict[str, Any] | None = Field(None, description="In place of the original's document.")


class TrialOut(Schema):
    id: int
    index: int
    settings: dict[str, Any] = Field(description="The values of this cell of the matrix, by dotted path.")
    label: str = Field("", description="On a ladder, what its rung is called.")
    bottleneck: dict[str, Any] | None = Field(
        None,
        description="What most of its valid runs were held up by: `kind`, `name`, `runs` of `of` with enough evidence, "
        "`score` and `says` the share and the argument of one of them. Null where there is none, or no majority.",
    )
    runs: list[RunInTrial]


class ExperimentItem(Schema):
    id: int
    name: str
    question: str
    tags: list[str]
    state: str
    reason: str
    project: str
    owner: str
    created_at: datetime
    ended_at: datetime | None
    url: str
    priority: int
    cloned_from: int | None = Field(description="The experiment that it is a clone of.")
    imported: dict[str, Any] | None = Field(
        description="Of an import where it is from: `tool`, `version`, `file`, `bytes`, `sha256`."
    )
    deleted_at: datetime | None
    counts: dict[str, int] = Field(description="Runs by state.")


class ExperimentOut(ExperimentItem):
    trials: list[TrialOut]
    spec: dict[str, Any] = Field(description="The document with every default filled in.")
    document: dict[str, Any] = Field(description="The document as it was sent.")
    outcome: str = Field(description="Why an experiment that plans its own next runs wanted no more.")
    search: SearchOut | None = Field(description="What it has found, where it plans its own next runs; null else.")


class ExperimentPage(PageOut):
    items: list[ExperimentItem]


class PlannedTrial(Schema):
    index: int
    settings: dict[str, Any]
    label: str = ""


class WarningOut(Schema):
    """Allowed, but likely to waste time or to end without a verdict."""

    field: str
    message: str


class EstimateOut(Schema):
    """From the first run's start to the last one's end, by past runs; `low` and `high` are their quartiles."""

    seconds: float
    low: float
    high: float
    basis: str = Field(description="Which past runs it rests on.")


class ValidationOut(Schema):
    valid: bool
    errors: list[FieldFault]
    trials: list[PlannedTrial]
    runs: int = Field(description="How many runs there are to begin with.")
    runs_at_most: int = Field(default=0, description="More than `runs` where the experiment plans its own next ones.")
    warnings: list[WarningOut] = []
    estimate: EstimateOut | None = Field(default=None, description="Null where no past run resembles these.")
