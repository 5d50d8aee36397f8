"""Writing an experiment: the editor, the check as one types, and the submission."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from experiments.errors import IdempotencyConflict
from experiments.pages.access import person
from experiments.services.feasibility import check_feasible
from experiments.services.submit import submit_experiment
from labsite.accounts.models import Project, Role
from labsite.accounts.permissions import AccessDenied, projects_of
from runners.document import FieldError, SpecError, parse_text
from runners.matrix import plan_experiment

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@login_required
def new_experiment(request: HttpRequest) -> HttpResponse:
    """The editor; a POST submits, and a refused text comes back with what is wrong and every character kept."""
    if request.method != "POST":
        examples = _examples()
        text = next(iter(examples.values()), "")
        return render(request, "experiments/new.html", _context(request, text, examples))
    text = request.POST.get("document", "").replace("\r\n", "\n")
    project = _project(request)
    if project is None:
        return _refused(request, text, [FieldError("project", "you may not submit to this project")], 403)
    try:
        document = parse_text(text)
        experiment = submit_experiment(person(request), project, document, request.POST.get("once", "")[:200] or None)
    except SpecError as error:
        return _refused(request, text, error.errors, 422)
    except IdempotencyConflict:
        return _refused(request, text, [FieldError("", "the text changed after it was sent; send it again")], 409)
    except AccessDenied as error:
        return _refused(request, text, [FieldError("project", str(error))], 403)
    messages.success(request, f"“{experiment.name}” is queued.")
    return redirect("experiment", experiment.pk)


@login_required
@require_POST
def check_experiment(request: HttpRequest) -> HttpResponse:
    """What the text would run, or what is wrong with it: a part of the page, asked for as one types."""
    return render(request, "experiments/_check.html", _check(request, request.POST.get("document", "")))


def _check(request: HttpRequest, text: str) -> dict[str, Any]:
    try:
        plan = plan_experiment(parse_text(text))
        project = _project(request)
        if project is not None:
            check_feasible(plan, project)
    except SpecError as error:
        return {"errors": error.errors}
    return {"plan": plan, "axes": list(plan.spec.matrix)}


def _refused(request: HttpRequest, text: str, errors: list[FieldError], status: int) -> HttpResponse:
    context = _context(request, text, _examples()) | {"errors": errors, "plan": None}
    return render(request, "experiments/new.html", context, status=status)


def _context(request: HttpRequest, text: str, examples: dict[str, str]) -> dict[str, Any]:
    return {
        "section": "new",
        "document": text,
        "examples": examples,
        "projects": list(projects_of(person(request), Role.RESEARCHER)),
        "project": _project(request),
        "once": secrets.token_urlsafe(16),
        **_check(request, text),
    }


def _project(request: HttpRequest) -> Project | None:
    """The project asked for, or the first that the user may submit to."""
    allowed = projects_of(person(request), Role.RESEARCHER).order_by("name")
    wanted = request.POST.get("project")
    return allowed.filter(slug=wanted).first() if wanted else allowed.first()


def _examples() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.yaml"))}
