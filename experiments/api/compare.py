"""REST for comparisons: the trials of one experiment, or any trials side by side."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router
from ninja.errors import HttpError

from experiments import selectors
from experiments.analysis.compare import compare_trials
from experiments.api.auth import person
from experiments.api.schemas import COMPARE_ERRORS, ComparisonOut
from experiments.comparison import MAX_TRIALS, compare_experiment, readable_trials, results_of
from labsite.error_body import ErrorBody

router = Router(tags=["compare"])


@router.get(
    "/compare",
    response={200: ComparisonOut, COMPARE_ERRORS: ErrorBody},
    summary="Trials side by side, with intervals, and each against the baseline",
)
def compare(
    request: HttpRequest,
    experiment: Annotated[int | None, Query(ge=1, lt=2**63, description="All trials of this experiment.")] = None,
    trials: Annotated[
        str | None,
        Query(pattern=r"^\d{1,18}(,\d{1,18})*$", description="Trial ids, as `1,2,3`; the first is the baseline."),
    ] = None,
) -> dict[str, Any]:
    if (experiment is None) == (trials is None):
        raise HttpError(400, "give experiment or trials, exactly one of them")
    user = person(request)
    if experiment is not None:
        return compare_experiment(selectors.get_experiment(user, experiment))
    wanted = list(dict.fromkeys(int(part) for part in (trials or "").split(",")))
    if len(wanted) > MAX_TRIALS:
        raise HttpError(400, f"{len(wanted)} trials; at most {MAX_TRIALS} are compared")
    found = readable_trials(user, wanted)
    missing = set(wanted) - {entry.trial.id for entry in found}
    if missing:
        raise HttpError(404, f"no trial {', '.join(map(str, sorted(missing)))}")
    return compare_trials(results_of(found))
