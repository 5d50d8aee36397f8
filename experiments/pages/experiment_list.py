"""The list of experiments: searched, filtered and sorted as the REST list is, and those that can still be restored."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from experiments.api.listing import ExperimentQuery, list_experiments
from experiments.models import ExperimentState
from experiments.pages.access import person
from experiments.pages.listing import ask, list_context, take
from experiments.pages.rows import experiment_rows
from labsite.accounts.models import Role
from labsite.accounts.permissions import projects_of

PROJECTS_OFFERED = 200
ORDERS = {
    "": "newest first",
    "created_at": "oldest first",
    "name": "by name",
    "-priority": "highest priority first",
    "-ended_at": "ended last first",
}


@login_required
def experiment_list(request: HttpRequest) -> HttpResponse:
    user = person(request)
    page, asked = take(ask(ExperimentQuery, request), lambda query: list_experiments(user, query))
    context = {
        "section": "experiments",
        "rows": experiment_rows(page.items),
        "deleted": asked.query.deleted,
        "states": ExperimentState.values,
        "orders": ORDERS,
        "projects": list(projects_of(user).order_by("slug").values_list("slug", flat=True)[:PROJECTS_OFFERED]),
        "may_submit": projects_of(user, Role.RESEARCHER).exists(),
        "import_projects": projects_of(user, Role.RESEARCHER).order_by("name")[:PROJECTS_OFFERED],
        **list_context(asked, page.next),
    }
    return render(request, "experiments/list.html", context)
