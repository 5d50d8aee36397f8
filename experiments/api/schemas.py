"""What the REST API answers, as types: the contract that /api/v1/openapi.json publishes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field

from experiments.api.search_out import SearchOut
from labsite.error_body import FieldFault

# Which errors an endpoint may answer; 401, 404, 422 (a bad parameter) and 429 (too many requests) are everywhere.
READ_ERRORS = frozenset({401, 404, 422, 429})
COMPARE_ERRORS = READ_ERRORS | {400}
CONTROL_ERRORS = READ_ERRORS | {403}
STATE_ERRORS = CONTROL_ERRORS | {409}
EDIT_ERRORS = CONTROL_ERRORS | {400, 413}
CLONE_ERRORS = EDIT_ERRORS | {409}
CHECK_ERRORS = frozenset({400, 401, 413, 415, 422, 429})
SUBMIT_ERRORS = CHECK_ERRORS | {403, 409}


class StrictBody(Schema):
    """A body whose unknown keys are refused, so that a misspelt one is not passed over, and whose types are meant."""

    model_config = ConfigDict(extra="forbid", strict=True)


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


class PageOut(Schema):
    next: str | None = Field(
        description="Pass it as `cursor`, with the same sort, for the next page; null on the last."
    )


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


class PoolOut(Schema):
    chip: str = Field(description="A chip id, or `any`: every chip of the catalog that no other pool names.")
    count: int


class LinkOut(Schema):
    between: tuple[str, str] = Field(description="Chip ids; both may be the same.")
    bytes_per_s: float = Field(description="One direction, of one chip.")
    latency_s: float


class NoiseOut(Schema):
    """One metric's on one node, from valid runs of equal settings there; shares of the setting's mean."""

    within: float | None = Field(description="Standard deviation of a run within an experiment.")
    within_freedom: int
    between: float | None = Field(description="That of experiments' means beyond it; null below 3 degrees of freedom.")
    between_freedom: int
    runs: int
    settings: int
    experiments: int
    oldest: datetime
    newest: datetime


class EngineOut(Schema):
    kind: str = Field(description="`external` (an endpoint) or `managed` (a command that the node starts and stops).")
    name: str = Field(description="What a document says in `engine.name`.")
    version: str = Field(default="", description="What its version command says; empty where that is not known.")
    dialect: str = ""
    settings: list[str] = Field(default=[], description="The fields of `engine` that a managed engine takes.")
    models: list[str] = Field(default=[], description="The models that an external engine serves.")
    problem: str = Field(default="", description="Why it can't be used now; empty where nothing is wrong.")


class NodeOut(Schema):
    slug: str
    name: str
    kind: str
    state: str
    project: str | None
    chip: str | None
    chip_name: str | None
    pools: list[PoolOut] = Field(description="What a modelled node offers, its own chip first; none on a measured one.")
    links: list[LinkOut] = Field(description="What joins chips of a modelled node, where that is stated.")
    labels: dict[str, Any]
    usd_per_hour: float | None
    last_seen_at: datetime | None
    current_run: int | None
    facts: dict[str, Any]
    ceilings: dict[str, Any]
    models: list[Any]
    engines: list[EngineOut] = Field(description="Beside the built-in one, from its operator's list.")
    agent_version: str
    noise: dict[str, NoiseOut] = Field(description="By metric; empty on a modelled node, and before any repeats.")
    fault: str = Field(description="Why it takes no work though its agent may run; empty where nothing is wrong.")


class ChipOut(Schema):
    chip_id: str
    version: int
    name: str
    vendor: str
    kind: str
    origin: str = Field(description="Who made this version: `catalog`, a file of the lab, or `admin`, a person.")
    record: dict[str, Any] = Field(description="Every figure of the chip, with its source.")


class ModelFileOut(Schema):
    name: str
    bytes: int
    sha256: str


class ModelOut(Schema):
    name: str
    title: str
    licence: str
    format: str
    architecture: str
    quantization: str
    source: dict[str, Any] = Field(description="`kind` is wheel, hub or local; the rest says where there.")
    source_text: str
    bytes: int
    sha256: str = Field(description="Of the one file; of several that of their sha256sum lines, sorted by name.")
    files: list[ModelFileOut]
    shape: dict[str, Any] = Field(description="Layers, widths, vocabulary, context and parameters, in plain numbers.")
    shipped: bool = Field(description="Comes with the lab: never retired.")
    retired: bool
    registered_by: str | None
    registered_at: datetime | None
    nodes: list[str] = Field(description="Nodes of yours that already hold the files.")


class ModelPage(Schema):
    items: list[ModelOut]
    next: str | None = Field(description="Pass it as `cursor` for the next page; null on the last.")


class ShapeOut(Schema):
    name: str
    parameters: float = Field(description="As its makers give them.")
    shape: dict[str, Any] = Field(description="Layers and widths, with the keys of a registered model's shape.")
    source: str
    confidence: str
    measurable: bool = Field(description="Whether measured nodes take it too, with random weights.")
    why_not_measurable: str


class ShapePage(PageOut):
    items: list[ShapeOut]


class NodePage(PageOut):
    items: list[NodeOut]


class ChipPage(PageOut):
    items: list[ChipOut]


class MembershipOut(Schema):
    slug: str
    name: str
    role: str


class TokenOut(Schema):
    id: int
    name: str
    prefix: str = Field(description="How the token begins; the rest is kept nowhere.")
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


class NewTokenOut(TokenOut):
    token: str = Field(description="The token itself, shown this once.")


class TokenPage(PageOut):
    items: list[TokenOut]


class Me(Schema):
    username: str
    is_superuser: bool = Field(description="An admin in every project.")
    theme: str
    time_zone: str
    projects: list[MembershipOut]
    token: TokenOut | None = Field(description="The token that asks; null for a session.")


class AuditEntryOut(Schema):
    id: int
    at: datetime
    actor: str | None = Field(description="User name, also of one since deleted; null where the lab itself did it.")
    action: str
    object_type: str
    object_id: str
    object_name: str
    project: str | None
    via: str = Field(description="page, api, admin, node or system.")
    address: str | None
    detail: dict[str, Any]


class AuditPage(PageOut):
    items: list[AuditEntryOut]


# Parts of comparisons are plain models: there are tens of thousands, and a Schema looks at each value by itself.


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
