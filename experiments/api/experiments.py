"""REST for experiments: submit, check, list, read, change, clone, delete.

Rules and state changes are in experiments.services.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from django.http import HttpRequest
from ninja import Header, Query, Router, Status

from experiments import selectors, services
from experiments.api.auth import person
from experiments.api.body import DOCUMENT_BODY, read_document
from experiments.api.listing import ExperimentQuery, list_experiments
from experiments.api.present import experiment_item, experiment_out
from experiments.api.schemas import (
    CHECK_ERRORS,
    CLONE_ERRORS,
    CONTROL_ERRORS,
    EDIT_ERRORS,
    READ_ERRORS,
    STATE_ERRORS,
    SUBMIT_ERRORS,
    CloneIn,
    EditIn,
    EstimateOut,
    ExperimentOut,
    ExperimentPage,
    PlannedTrial,
    ValidationOut,
    WarningOut,
)
from experiments.api.search_out import search_out
from experiments.models import Experiment
from experiments.preview import preview
from experiments.search.planner import first_runs, most_runs_of
from experiments.services.feasibility import check_feasible
from labsite.accounts.models import User
from labsite.error_body import ErrorBody, FieldFault
from runners.document import SpecError
from runners.matrix import Plan, plan_experiment

router = Router(tags=["experiments"])

IdempotencyHeader = Annotated[str | None, Header(alias="Idempotency-Key", pattern=r"^[\x20-\x7e]{1,200}$")]
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
    idempotency_key: IdempotencyHeader = None,
) -> Status[ExperimentOut]:
    user = person(request)
    space = selectors.get_project(user, project)
    document = read_document(request)
    done = services.submit_once(user, space, document, idempotency_key)
    return Status(201 if done.created else 200, _experiment(user, done.experiment.id))


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
        found = check_feasible(plan, space)
    except SpecError as error:
        faults = [FieldFault(**one.as_dict()) for one in error.errors]
        return ValidationOut(valid=False, errors=faults, trials=[], runs=0)
    ahead = preview(plan, space, found)
    return ValidationOut(
        valid=True,
        errors=[],
        trials=_planned_trials(plan),
        runs=first_runs(plan),
        runs_at_most=most_runs_of(plan),
        warnings=[WarningOut(**asdict(warning)) for warning in ahead.warnings],
        estimate=EstimateOut(**asdict(ahead.estimate)) if ahead.estimate else None,
    )


@router.get("/experiments", response={200: ExperimentPage, READ_ERRORS: ErrorBody}, summary="List")
def list_all(request: HttpRequest, asked: Query[ExperimentQuery]) -> ExperimentPage:
    page = list_experiments(person(request), asked)
    counts = selectors.count_runs(experiment.id for experiment in page.items)
    items = [experiment_item(experiment, counts[experiment.id]) for experiment in page.items]
    return ExperimentPage(items=items, next=page.next)


@router.get("/experiments/{int:experiment_id}", response={200: ExperimentOut, READ_ERRORS: ErrorBody}, summary="Read")
def read(request: HttpRequest, experiment_id: int) -> ExperimentOut:
    return _experiment(person(request), experiment_id)


@router.patch(
    "/experiments/{int:experiment_id}",
    response={200: ExperimentOut, EDIT_ERRORS: ErrorBody},
    summary="Change name, question, tags or priority",
    description="What is left out stays. The document stays as it was sent. A priority above 0 needs an operator.",
)
def edit(request: HttpRequest, experiment_id: int, body: EditIn) -> ExperimentOut:
    user = person(request)
    services.edit_experiment(user, selectors.get_experiment(user, experiment_id), services.Edit(**body.dict()))
    return _experiment(user, experiment_id)


@router.delete(
    "/experiments/{int:experiment_id}",
    response={204: None, CONTROL_ERRORS: ErrorBody},
    summary="Delete",
    description="What has not ended is cancelled. For 30 days it can be restored; then it is gone with its records.",
)
def delete(request: HttpRequest, experiment_id: int) -> Status[None]:
    user = person(request)
    services.delete_experiment(user, selectors.get_experiment(user, experiment_id))
    return Status(204, None)


@router.post(
    "/experiments/{int:experiment_id}/restore",
    response={200: ExperimentOut, CONTROL_ERRORS: ErrorBody},
    summary="Restore a deleted experiment",
)
def restore(request: HttpRequest, experiment_id: int) -> ExperimentOut:
    user = person(request)
    services.restore_experiment(user, selectors.get_experiment(user, experiment_id, deleted_too=True))
    return _experiment(user, experiment_id)


@router.post(
    "/experiments/{int:experiment_id}/cancel",
    response={200: ExperimentOut, CONTROL_ERRORS: ErrorBody},
    summary="Cancel what has not ended",
    description="Queued runs end at once; a run under way ends when its node says that nothing of it is left.",
)
def cancel(request: HttpRequest, experiment_id: int) -> ExperimentOut:
    return _change(request, experiment_id, services.cancel_experiment)


@router.post(
    "/experiments/{int:experiment_id}/pause",
    response={200: ExperimentOut, STATE_ERRORS: ErrorBody},
    summary="Start none of its queued runs until it is resumed",
    description="Runs under way go on. The budget of time does not count the pause.",
)
def pause(request: HttpRequest, experiment_id: int) -> ExperimentOut:
    return _change(request, experiment_id, services.pause_experiment)


@router.post(
    "/experiments/{int:experiment_id}/resume",
    response={200: ExperimentOut, STATE_ERRORS: ErrorBody},
    summary="Let its queued runs start again",
)
def resume(request: HttpRequest, experiment_id: int) -> ExperimentOut:
    return _change(request, experiment_id, services.resume_experiment)


@router.post(
    "/experiments/{int:experiment_id}/clone",
    response={200: ExperimentOut, 201: ExperimentOut, CLONE_ERRORS: ErrorBody},
    summary="Submit it again, changed or not, as a new experiment",
)
def clone(
    request: HttpRequest, experiment_id: int, body: CloneIn, idempotency_key: IdempotencyHeader = None
) -> Status[ExperimentOut]:
    user = person(request)
    done = services.clone_experiment(
        user,
        selectors.get_experiment(user, experiment_id),
        name=body.name,
        changes=body.set,
        document=body.document,
        idempotency_key=idempotency_key,
    )
    return Status(201 if done.created else 200, _experiment(user, done.experiment.id))


def _change(request: HttpRequest, experiment_id: int, change: Callable[[User, Experiment], None]) -> ExperimentOut:
    user = person(request)
    change(user, selectors.get_experiment(user, experiment_id))
    return _experiment(user, experiment_id)


def _experiment(user: User, experiment_id: int) -> ExperimentOut:
    experiment: Experiment = selectors.get_experiment(user, experiment_id)
    counts = selectors.count_runs([experiment.id])[experiment.id]
    trials = selectors.trials_with_runs(experiment.id)
    return experiment_out(experiment, counts, trials, search_out(experiment, trials))


def _planned_trials(plan: Plan) -> list[PlannedTrial]:
    """Those that there are in any case; of a search the combinations that it searches."""
    if plan.searched:
        return [PlannedTrial(index=place, settings=one) for place, one in enumerate(plan.searched)]
    return [PlannedTrial(index=cell.index, settings=cell.settings, label=cell.label) for cell in plan.cells]
