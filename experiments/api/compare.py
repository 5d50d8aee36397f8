"""REST for comparisons: the trials of one experiment, or any trials side by side."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router
from ninja.errors import HttpError

from experiments import selectors
from experiments.analysis.compare import COMPARED, compare_trials
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
    metrics: Annotated[
        str | None, Query(max_length=2000, description="Only these, as `ttft,goodput`; of many trials that is faster.")
    ] = None,
) -> dict[str, Any]:
    if (experiment is None) == (trials is None):
        raise HttpError(400, "give experiment or trials, exactly one of them")
    user, named = person(request), _metrics(metrics)
    if experiment is not None:
        return compare_experiment(selectors.get_experiment(user, experiment), named)
    wanted = list(dict.fromkeys(int(part) for part in (trials or "").split(",")))
    if len(wanted) > MAX_TRIALS:
        raise HttpError(400, f"{len(wanted)} trials; at most {MAX_TRIALS} are compared")
    found = readable_trials(user, wanted)
    missing = set(wanted) - {entry.trial.id for entry in found}
    if missing:
        raise HttpError(404, f"no trial {', '.join(map(str, sorted(missing)))}")
    return compare_trials(results_of(found), metrics=named)


def _metrics(names: str | None) -> list[str]:
    """Those named, in the order of COMPARED; every one where none is."""
    wanted = set(names.split(",")) if names else set(COMPARED)
    if unknown := sorted(wanted - COMPARED.keys()):
        raise HttpError(400, f"metrics: {', '.join(unknown)[:200]} can't be compared; allowed: {', '.join(COMPARED)}")
    return [name for name in COMPARED if name in wanted]
