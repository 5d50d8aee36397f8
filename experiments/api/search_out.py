"""What an experiment that plans its own next runs has found so far, as the API gives it."""

from __future__ import annotations

from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from experiments.models import Experiment
from experiments.search.planner import Planned, most_runs
from experiments.search.stored import searches_of, spec_of
from experiments.selectors import TrialWithRuns

Said = Literal["passed", "breached", "unjudged", "open"]
SETTINGS = Field(description="The combination of the matrix that is searched.")


class LevelRunOut(Schema):
    said: Said
    why: str


class LevelOut(Schema):
    load: float
    trial: int
    said: Said = Field(description="What its runs say together, by majority or all as the document asks.")
    why: str
    runs: list[LevelRunOut]
    run_ids: list[int] = Field(description="Those that have ended.")


class CountOut(Schema):
    passed: int
    of: int = Field(description="Runs that could be judged.")


class LoadOut(Schema):
    """The highest load that holds lies from `low` to below `high`. `high` is a breach that was measured: without one,
    `low` is a mere floor."""

    settings: dict[str, Any] = SETTINGS
    said: str
    done: bool
    low: float | None = Field(description="The highest level that passed below every breach.")
    high: float | None = Field(description="The lowest level that breached.")
    confirmed: CountOut | None = Field(description="How many of the runs at `low` passed.")
    breach: CountOut | None = Field(description="How many of the runs at `high` passed.")
    holds_above: list[float] = Field(description="Levels that passed though a lower one breached.")
    levels: list[LevelOut]


class TriedOut(Schema):
    trial: int
    settings: dict[str, Any]
    values: list[float] | None = Field(description="Means over the valid exploring runs, one for each figure.")
    n: int
    holds: bool = Field(description="Valid, and within the objective: whether it may win.")
    why: str


class ConfirmedOut(Schema):
    trial: int
    settings: dict[str, Any]
    mean: float = Field(description="Over the confirming runs alone.")
    low: float | None
    high: float | None
    n: int
    method: str
    modelled: bool


class LeadOut(Schema):
    """What the best gains over its runner-up, by the confirming runs alone."""

    difference: float
    relative: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    noise_floor: float | None
    noise_source: str | None
    is_difference: bool
    verdict: str


class BestOut(Schema):
    settings: dict[str, Any] = SETTINGS
    said: str
    metric: str
    best: ConfirmedOut | None = Field(description="Null until it is confirmed.")
    runner_up: ConfirmedOut | None
    difference: LeadOut | None
    tried: list[TriedOut]


class FrontOut(Schema):
    settings: dict[str, Any] = SETTINGS
    said: str
    metrics: list[str]
    front: list[int] = Field(description="Trials that no other beats in both figures, by the first.")
    tried: list[TriedOut]


class TightOut(Schema):
    trial: int
    settings: dict[str, Any]
    half_width: float | None = Field(description="Of the 95 % interval, as a share of the mean.")
    n: int
    modelled: bool
    enough: bool


class RepeatsOut(Schema):
    said: str
    done: bool
    metric: str
    interval: float = Field(description="The half-width that is asked for, as a share of the mean.")
    trials: list[TightOut]


class SearchOut(Schema):
    """One list of these is filled, by `kind`: an entry for each combination of the matrix."""

    kind: Literal["load", "best", "front", "repeats"]
    path: str | None = Field(description="Of a search for the highest load, what is raised.")
    runs_at_most: int = Field(description="Where every run tells something; never above budget.max_runs.")
    modelled: bool = Field(description="Whether any of its runs is modelled, and so what it found.")
    load: list[LoadOut] = []
    best: list[BestOut] = []
    front: list[FrontOut] = []
    repeats: list[RepeatsOut] = []


def search_out(experiment: Experiment, trials: list[TrialWithRuns]) -> SearchOut | None:
    """None of an experiment that plans no runs itself."""
    found = searches_of(experiment, trials)
    modelled = any(run.modelled for trial in trials for run in trial.runs)
    return None if found is None else _out(experiment, found, len(trials), modelled)


def _out(experiment: Experiment, found: Planned, trials: int, modelled: bool) -> SearchOut:
    spec = spec_of(experiment)
    cells = len(found.courses) if spec.search is not None else trials
    said = found.as_json()
    return SearchOut(
        kind=said["kind"],
        path=getattr(spec.search, "path", None),
        runs_at_most=most_runs(spec, cells),
        modelled=modelled,
        **{said["kind"]: said["courses"]},
    )
