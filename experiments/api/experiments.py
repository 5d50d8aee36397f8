"""REST for experiments: submit, check, list, read, cancel. Rules and state changes are in experiments.services."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Header, Query, Router, Status

from experiments import selectors, services
from experiments.api.auth import person
from experiments.api.body import DOCUMENT_BODY, read_document
from experiments.api.present import experiment_item, experiment_out
from experiments.api.schemas import (
    CANCEL_ERRORS,
    CHECK_ERRORS,
    READ_ERRORS,
    SUBMIT_ERRORS,
    ErrorBody,
    ExperimentOut,
    ExperimentPage,
    FieldFault,
    PlannedTrial,
    ValidationOut,
)
from experiments.models import Experiment
from experiments.services.feasibility import check_feasible
from labsite.accounts.models import User
from runners.document import SpecError
from runners.matrix import plan_experiment

router = Router(tags=["experiments"])

ProjectSlug = Annotated[str | None, Query(max_length=60, description="Slug; may be left out by who has one project.")]


@router.post(
    "/experiments",
    response={200: ExperimentOut, 201: ExperimentOut, SUBMIT_ERRORS: ErrorBody},
    openapi_extra=DOCUMENT_BODY,
    summary="Submit an experiment",
    description="The body is the experiment document, as JSON or YAML. It is refused whole, with every fault found. "
    "With an `Idempotency-Key` the same request may be sent again: it answers 200 with the experiment it made; "
    "the same key with another document is refused (409).",
)
def submit(
    request: HttpRequest,
    project: ProjectSlug = None,
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key", pattern=r"^[\x20-\x7e]{1,200}$")] = None,
) -> Status[ExperimentOut]:
    user = person(request)
    space = selectors.get_project(user, project)
    document = read_document(request)
    earlier = services.find_submission(user, space, document, idempotency_key)
    experiment = earlier or services.submit_experiment(user, space, document, idempotency_key)
    return Status(200 if earlier else 201, _experiment(user, experiment.id))


@router.post(
    "/experiments/validate",
    response={200: ValidationOut, CHECK_ERRORS: ErrorBody},
    openapi_extra=DOCUMENT_BODY,
    summary="Check a document without submitting it",
)
def validate(request: HttpRequest, project: ProjectSlug = None) -> ValidationOut:
    space = selectors.get_project(person(request), project)
    try:
        plan = plan_experiment(read_document(request))
        check_feasible(plan, space)
    except SpecError as error:
        faults = [FieldFault(**one.as_dict()) for one in error.errors]
        return ValidationOut(valid=False, errors=faults, trials=[], runs=0)
    trials = [PlannedTrial(index=cell.index, settings=cell.settings) for cell in plan.cells]
    return ValidationOut(valid=True, errors=[], trials=trials, runs=len(plan.runs))


@router.get("/experiments", response={200: ExperimentPage, READ_ERRORS: ErrorBody}, summary="List, newest first")
def list_experiments(
    request: HttpRequest,
    cursor: Annotated[int | None, Query(ge=1, lt=2**63, description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> ExperimentPage:
    found = selectors.experiments_before(person(request), cursor, limit)
    page, more = found[:limit], len(found) > limit
    counts = selectors.count_runs(experiment.id for experiment in page)
    return ExperimentPage(
        items=[experiment_item(experiment, counts[experiment.id]) for experiment in page],
        next=page[-1].id if more else None,
    )


@router.get("/experiments/{int:experiment_id}", response={200: ExperimentOut, READ_ERRORS: ErrorBody}, summary="Read")
def read(request: HttpRequest, experiment_id: int) -> ExperimentOut:
    return _experiment(person(request), experiment_id)


@router.post(
    "/experiments/{int:experiment_id}/cancel",
    response={200: ExperimentOut, CANCEL_ERRORS: ErrorBody},
    summary="Cancel what has not ended",
    description="Queued runs end at once; a run under way ends when its node says that nothing of it is left.",
)
def cancel(request: HttpRequest, experiment_id: int) -> ExperimentOut:
    user = person(request)
    services.cancel_experiment(user, selectors.get_experiment(user, experiment_id))
    return _experiment(user, experiment_id)


def _experiment(user: User, experiment_id: int) -> ExperimentOut:
    experiment: Experiment = selectors.get_experiment(user, experiment_id)
    counts = selectors.count_runs([experiment.id])[experiment.id]
    return experiment_out(experiment, counts, selectors.trials_with_runs(experiment.id))
