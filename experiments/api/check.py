"""REST for checks: has an experiment become worse than its baseline, an earlier one, or the last runs like it?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from experiments import selectors
from experiments.analysis.regression import JUDGED
from experiments.api.auth import person
from experiments.api.schemas import READ_ERRORS
from experiments.errors import BadParameter
from experiments.models import Experiment
from experiments.regressions import MOST_LAST, Check, check_against, check_against_last, check_itself
from labsite.accounts.models import User
from labsite.error_body import ErrorBody

router = Router(tags=["compare"])

LAST = "last:"


class FindingOut(Schema):
    """One trial's verdict on one metric. What can't be known is null."""

    trial: int
    settings: dict[str, Any]
    nodes: list[str] = Field(description="Those that both sides ran on; runs elsewhere do not count.")
    runs: list[int]
    baseline_runs: list[int]
    metric: str
    outcome: str = Field(description="regressed, improved, unchanged, or inconclusive: too little power to say.")
    why: str
    n_before: int
    n_after: int
    effect: float = Field(description="The relative change that the check was asked to tell of.")
    method: str | None
    difference: float | None = Field(description="In the metric's unit, with its 95 % interval `low` to `high`.")
    relative: float | None = Field(description="As a share of the baseline's mean.")
    low: float | None
    high: float | None
    noise_floor: float | None = Field(description="Relative: what equal settings differ by 95 % of the time at most.")
    effect_size: float | None = Field(description="Cohen's d: the difference in standard deviations.")
    power: float | None = Field(description="The chance that a change of `effect` would have been seen.")
    repeats_needed: int | None = Field(description="Of each side, to see `effect` with 80 %, by these runs' spread.")


class CheckOut(Schema):
    experiment: int
    baseline: str = Field(description="What it was held against, in words.")
    outcome: str = Field(description="The worst of the findings: regressed, inconclusive, improved, unchanged.")
    findings: list[FindingOut]


@router.get(
    "/experiments/{int:experiment_id}/check",
    response={200: CheckOut, READ_ERRORS | {409}: ErrorBody},
    summary="Has it become worse?",
    description="Each trial against the baseline, with interval, noise floor, effect size and power. Refused (409) "
    "while runs are under way. Each verdict on equal settings errs in at most 5 %: of many, some will.",
)
def check(
    request: HttpRequest,
    experiment_id: int,
    baseline: Annotated[
        str | None,
        Query(
            pattern=r"^([1-9]\d{0,17}|last:[1-9]\d{0,2})$",
            description="An experiment's id: its trials of the same settings; or `last:N`: the last N valid runs of "
            "the same frozen settings on the same node. Left out: the experiment's own baseline.",
        ),
    ] = None,
    metrics: Annotated[
        str, Query(pattern=r"^[a-z0-9_]+(,[a-z0-9_]+)*$", max_length=500, description="Names, as `ttft,tpot`.")
    ] = "output_throughput",
    effect: Annotated[
        float, Query(gt=0, le=10, description="The relative change that is to be told of, as 0.05.")
    ] = 0.05,
) -> CheckOut:
    user = person(request)
    experiment = selectors.get_experiment(user, experiment_id)
    wanted = list(dict.fromkeys(metrics.split(",")))
    unknown = [metric for metric in wanted if metric not in JUDGED]
    if unknown:
        raise BadParameter("metrics", f"{', '.join(unknown)} can't be judged better or worse", list(JUDGED))
    return _check_out(_found(user, experiment, baseline, wanted, effect))


def _found(user: User, experiment: Experiment, baseline: str | None, metrics: list[str], effect: float) -> Check:
    if baseline is None:
        return check_itself(experiment, metrics, effect)
    if baseline.startswith(LAST):
        number = int(baseline.removeprefix(LAST))
        if not 2 <= number <= MOST_LAST:
            raise BadParameter("baseline", f"{number} runs are no baseline", f"last:2 to last:{MOST_LAST}")
        return check_against_last(user, experiment, number, metrics, effect)
    if int(baseline) == experiment.pk:
        raise BadParameter("baseline", "no experiment is its own", "another's id, last:N, or none: its baseline trial")
    return check_against(experiment, selectors.get_experiment(user, int(baseline)), metrics, effect)


def _check_out(found: Check) -> CheckOut:
    findings = [
        FindingOut(
            trial=one.trial,
            settings=dict(one.settings),
            nodes=list(one.nodes),
            runs=list(one.runs),
            baseline_runs=list(one.baseline_runs),
            **asdict(one.verdict),
        )
        for one in found.findings
    ]
    return CheckOut(experiment=found.experiment, baseline=found.baseline, outcome=found.outcome, findings=findings)
