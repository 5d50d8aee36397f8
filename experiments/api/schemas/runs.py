"""Runs, their attempts and records, as the API gives them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from experiments.api.schemas.common import PageOut


class RunInTrial(Schema):
    id: int
    repeat: int
    position: int
    state: str
    valid: bool | None = Field(description="Null until the run has ended and its results are computed.")
    reasons: list[str] = Field(description="Codes of what makes the run invalid.")
    reason: str = Field(description="Why the run ended as it did, for a person.")
    node: str | None
    modelled: bool | None
    imported: bool = Field(description="Its results come from a file, not from a run of this lab.")
    attempts_made: int


class AttemptOut(Schema):
    number: int
    node: str | None = Field(description="Null of an imported run.")
    chip: str | None
    state: str
    phase: str
    phase_detail: str = Field(description="How far the phase is, such as `fetching tiny: 40 %`.")
    reason: str
    assigned_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    stored_events: int
    events: int | None = Field(description="How many events the node sent in all; null until it has reported.")
    unreadable_events: int
    report: dict[str, Any] | None = Field(description="The node's last word: outcome, window, facts.")


class TrialRef(Schema):
    id: int
    index: int
    settings: dict[str, Any]


class ExperimentRef(Schema):
    id: int
    name: str


class RunItem(RunInTrial):
    experiment: ExperimentRef
    trial: TrialRef
    phase: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    url: str


class RunPage(PageOut):
    items: list[RunItem]


class RunOut(RunItem):
    summary: dict[str, Any] | None = Field(
        description="Every figure as {value, unit, n, percentiles}, and the reasons in full."
    )
    bottleneck: dict[str, Any] | None = Field(
        None,
        description="What held the run up: `kind` and `name` (null: `why_not` says why), `causes` ranked by `score`, "
        "the share of its requests' time, each with what it `says` and its `figures`; `threshold` is the least score "
        "that is named; `suggests` the matrix of a next experiment. Null for a cancelled run.",
    )
    prediction: dict[str, Any] | None = Field(
        description="What the cost model says of a measured run, modelled as it is: `state` calibrated or "
        "uncalibrated, `basis` in words, `metrics` with predicted, low and high (90 %), measured and residual "
        "(measured / predicted - 1), `runs` how many earlier predictions the band is from (null: it is from steps); "
        "or `why_not`. Null for a modelled run, and until it has been computed."
    )
    spec: dict[str, Any] = Field(description="What the node was given, frozen at submission.")
    attempts: list[AttemptOut]
    live: dict[str, Any] | None = Field(description="The latest sample of the attempt shown.")


class RecordPage(Schema):
    attempt: int | None = Field(description="Whose records these are: the final attempt, or the one under way.")
    items: list[dict[str, Any]] = Field(description="Events in order, each with its `seq`.")
    next: int | None = Field(description="Pass it as `after` for the next page; null when this is all for now.")
