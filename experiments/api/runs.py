"""REST for runs: the list, one run with its results, its records page by page, and its cancelling."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router

from experiments import selectors, services
from experiments.api.auth import person
from experiments.api.listing import RunQuery, list_runs
from experiments.api.present import run_item, run_out
from experiments.api.schemas import CONTROL_ERRORS, READ_ERRORS, RecordPage, RunOut, RunPage
from labsite.accounts.models import User
from labsite.error_body import ErrorBody

router = Router(tags=["runs"])

After = Annotated[int, Query(ge=0, lt=2**63, description="Only events numbered above this.")]
Limit = Annotated[int, Query(ge=1, le=5000)]
Number = Annotated[int | None, Query(ge=1, lt=2**31, description="Another attempt than the one shown.")]
PAGED = {200: RecordPage, READ_ERRORS: ErrorBody}


@router.get("/runs", response={200: RunPage, READ_ERRORS: ErrorBody}, summary="List")
def list_all(request: HttpRequest, asked: Query[RunQuery]) -> RunPage:
    page = list_runs(person(request), asked)
    return RunPage(items=[run_item(entry) for entry in selectors.with_nodes(page.items)], next=page.next)


@router.get("/runs/{int:run_id}", response={200: RunOut, READ_ERRORS: ErrorBody}, summary="Read")
def read(request: HttpRequest, run_id: int) -> RunOut:
    return _run(person(request), run_id)


@router.post("/runs/{int:run_id}/cancel", response={200: RunOut, CONTROL_ERRORS: ErrorBody}, summary="Cancel")
def cancel(request: HttpRequest, run_id: int) -> RunOut:
    user = person(request)
    services.cancel_run(user, selectors.get_run(user, run_id))
    return _run(user, run_id)


@router.get("/runs/{int:run_id}/requests", response=PAGED, summary="Every request, with its times")
def requests(
    request: HttpRequest, run_id: int, after: After = 0, limit: Limit = 1000, attempt: Number = None
) -> RecordPage:
    return _records(request, "requests", run_id, after, limit, attempt)


@router.get("/runs/{int:run_id}/series", response=PAGED, summary="Samples of about 250 ms")
def series(
    request: HttpRequest, run_id: int, after: After = 0, limit: Limit = 1000, attempt: Number = None
) -> RecordPage:
    return _records(request, "series", run_id, after, limit, attempt)


@router.get("/runs/{int:run_id}/steps", response=PAGED, summary="Every engine step")
def steps(
    request: HttpRequest, run_id: int, after: After = 0, limit: Limit = 1000, attempt: Number = None
) -> RecordPage:
    return _records(request, "steps", run_id, after, limit, attempt)


@router.get("/runs/{int:run_id}/log", response=PAGED, summary="What the node's processes said")
def log(request: HttpRequest, run_id: int, after: After = 0, limit: Limit = 1000, attempt: Number = None) -> RecordPage:
    return _records(request, "log", run_id, after, limit, attempt)


def _run(user: User, run_id: int) -> RunOut:
    run = selectors.get_run(user, run_id)
    attempts = selectors.attempts_of(run_id)
    shown = selectors.shown_attempt(run, attempts)
    live = selectors.latest_sample(run_id, shown.number) if shown else None
    return run_out(selectors.RunOnNode(run, shown), attempts, live)


def _records(request: HttpRequest, kind: str, run_id: int, after: int, limit: int, attempt: int | None) -> RecordPage:
    run = selectors.get_run(person(request), run_id)
    number = attempt or selectors.shown_number(run)
    if number is None:
        return RecordPage(attempt=None, items=[], next=None)
    found = selectors.records_after(kind, run_id, number, after, limit)
    page, more = found[:limit], len(found) > limit
    return RecordPage(attempt=number, items=page, next=page[-1]["seq"] if more else None)
