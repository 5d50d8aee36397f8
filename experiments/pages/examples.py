"""The experiments that ship: what each asks and shows, and one click to run it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from experiments.errors import IdempotencyConflict
from experiments.pages.access import chosen_project, person
from experiments.services.submit import submit_once
from experiments.shipped import examples, find_example
from labsite.accounts.models import Role
from labsite.accounts.permissions import AccessDenied, projects_of
from runners.document import FieldError, SpecError


@login_required
def example_list(request: HttpRequest) -> HttpResponse:
    return render(request, "experiments/examples.html", _context(request))


@login_required
@require_POST
def run_example(request: HttpRequest, example: str) -> HttpResponse:
    """Submits it as it is. A refusal is told at the example, and nothing is stored."""
    found = find_example(example)
    if found is None:
        raise Http404
    project = chosen_project(request)
    if project is None:
        return _refused(request, example, [FieldError("project", "you may not submit to this project")], 403)
    once = request.POST.get("once", "")[:200]
    try:
        key = f"{once}-{found.slug}" if once else None
        experiment = submit_once(person(request), project, found.document, key).experiment
    except SpecError as error:
        return _refused(request, example, error.errors, 422)
    except (AccessDenied, IdempotencyConflict) as error:
        return _refused(request, example, [FieldError("", str(error))], 403)
    messages.success(request, f"“{experiment.name}” is queued.")
    return redirect("experiment", experiment.pk)


def _refused(request: HttpRequest, slug: str, faults: Sequence[FieldError], status: int) -> HttpResponse:
    context = _context(request) | {"refused": slug, "faults": faults}
    return render(request, "experiments/examples.html", context, status=status)


def _context(request: HttpRequest) -> dict[str, Any]:
    return {
        "section": "new",
        "examples": examples(),
        "projects": list(projects_of(person(request), Role.RESEARCHER).order_by("name")),
        "project": chosen_project(request),
        "once": secrets.token_urlsafe(16),
    }
