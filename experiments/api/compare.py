"""REST for comparisons: the trials of one experiment, or any trials side by side."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router
from ninja.errors import HttpError

from experiments import selectors
from experiments.analysis.assumed import Assumed, assume
from experiments.analysis.compare import COMPARED, compare_trials
from experiments.api.auth import person
from experiments.api.schemas import COMPARE_ERRORS, ComparisonOut
from experiments.assumptions import BadAssumption, assumed_in
from experiments.comparison import MAX_TRIALS, compare_experiment, readable_trials, results_of
from labsite.error_body import ErrorBody

router = Router(tags=["compare"])


@router.get(
    "/compare",
    response={200: ComparisonOut, COMPARE_ERRORS: ErrorBody},
    summary="Trials side by side, with intervals, and each against the baseline",
    description="`usd_per_hour[node]=2.5` and `watts[node]=300` in the address assume a price and a power of a node: "
    "cost and energy figures of its runs are computed by them and say `assumed`. Nothing is stored.",
)
def compare(
    request: HttpRequest,
    experiment: Annotated[int | None, Query(ge=1, lt=2**63, description="All trials of this experiment.")] = None,
    trials: Annotated[
        str | None,
        Query(pattern=r"^\d{1,18}(,\d{1,18})*$", description="Trial ids, as `1,2,3`; the first is the baseline."),
    ] = None,
    metrics: Annotated[
        str | None, Query(max_length=2000, description="Only these, as `ttft,goodput`; of many trials that is faster.")
    ] = None,
) -> dict[str, Any]:
    if (experiment is None) == (trials is None):
        raise HttpError(400, "give experiment or trials, exactly one of them")
    user, named, assumed = person(request), _metrics(metrics), _assumed(request)
    if experiment is not None:
        return compare_experiment(selectors.get_experiment(user, experiment), named, assumed)
    wanted = list(dict.fromkeys(int(part) for part in (trials or "").split(",")))
    if len(wanted) > MAX_TRIALS:
        raise HttpError(400, f"{len(wanted)} trials; at most {MAX_TRIALS} are compared")
    found = readable_trials(user, wanted)
    missing = set(wanted) - {entry.trial.id for entry in found}
    if missing:
        raise HttpError(404, f"no trial {', '.join(map(str, sorted(missing)))}")
    return compare_trials(assume(results_of(found), assumed), metrics=named)


def _assumed(request: HttpRequest) -> Assumed:
    try:
        return assumed_in(request.GET)
    except BadAssumption as error:
        raise HttpError(400, str(error)) from error


def _metrics(names: str | None) -> list[str]:
    """Those named, in the order of COMPARED; every one where none is."""
    wanted = set(names.split(",")) if names else set(COMPARED)
    if unknown := sorted(wanted - COMPARED.keys()):
        raise HttpError(400, f"metrics: {', '.join(unknown)[:200]} can't be compared; allowed: {', '.join(COMPARED)}")
    return [name for name in COMPARED if name in wanted]
