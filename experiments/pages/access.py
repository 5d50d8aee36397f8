"""What every page shares: signed in, and another team's things are not found."""

from __future__ import annotations

from typing import cast

from django.http import Http404, HttpRequest

from experiments.models import Experiment, Run
from experiments.selectors import get_experiment, get_run
from labsite.accounts.models import Project, Role, User
from labsite.accounts.permissions import projects_of


def person(request: HttpRequest) -> User:
    """The signed-in user; pages are behind login_required, so there is one."""
    return cast(User, request.user)


def chosen_project(request: HttpRequest) -> Project | None:
    """The project that the form names, or the first that the user may submit to; None where he may not."""
    allowed = projects_of(person(request), Role.RESEARCHER).order_by("name")
    wanted = request.POST.get("project")
    return allowed.filter(slug=wanted).first() if wanted else allowed.first()


def experiment_or_404(request: HttpRequest, experiment_id: int) -> Experiment:
    try:
        return get_experiment(person(request), experiment_id)
    except Experiment.DoesNotExist as error:
        raise Http404 from error


def run_or_404(request: HttpRequest, run_id: int) -> Run:
    try:
        return get_run(person(request), run_id)
    except Run.DoesNotExist as error:
        raise Http404 from error
