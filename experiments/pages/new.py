"""Writing an experiment: the document's text and a form beside it, each reflecting the other, and the submission.

The text is the only truth. A change in the form is made in the text here and both are drawn anew; the page's script
swaps the parts in, and without it the form's own button does the same with a whole page.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from experiments.bottlenecks import next_experiment
from experiments.errors import IdempotencyConflict
from experiments.form.changes import changes_for
from experiments.form.fields import Field, Form, draw_form
from experiments.form.offer import offer_to
from experiments.form.rewrite import rewrite, write
from experiments.models import Experiment
from experiments.pages.access import chosen_project, experiment_or_404, person, run_or_404
from experiments.preview import preview
from experiments.search.planner import most_runs_of, plans_ahead
from experiments.selectors import RunOnNode, attempts_of, shown_attempt
from experiments.services.feasibility import check_feasible
from experiments.services.submit import submit_once
from experiments.shipped import examples, find_example
from labsite.accounts.models import Project, Role
from labsite.accounts.permissions import AccessDenied, projects_of
from runners.document import FieldError, SpecError, parse_text
from runners.matrix import plan_experiment
from runners.search_probes import space_of

SHOWN_TRIALS = 100


@login_required
def new_experiment(request: HttpRequest) -> HttpResponse:
    """The editor. A POST submits; what was changed in the form is taken into the text first, which is then shown again.
    A refused text comes back whole."""
    if request.method != "POST":
        source, suggested = _source(request), _suggested(request)
        text = suggested or (write(source.document) if source else _start(request))
        return render(request, "experiments/new.html", _context(request, text) | {"source": source})
    text = _text(request)
    # With scripts all that was changed in the form is in the text already.
    merged, errors = _take_form(request, text)
    if request.POST.get("do") == "apply" or merged != text or errors:
        messages.info(request, "The document has what the form says. Look it over, then submit it.")
        return render(request, "experiments/new.html", _context(request, merged, errors))
    return _submit(request, text)


@login_required
@require_POST
def check_experiment(request: HttpRequest) -> HttpResponse:
    """The parts of the page for the text as it stands, after the change of one control (`set` to `value`) if asked."""
    text = _text(request)
    errors: list[FieldError] = []
    name = request.POST.get("set", "")
    if name:
        text, errors = _change(text, name, request.POST.get("value", ""))
    return render(request, "experiments/_new_parts.html", _drawn(request, text, errors))


def _submit(request: HttpRequest, text: str) -> HttpResponse:
    project = chosen_project(request)
    if project is None:
        return _refused(request, text, [FieldError("project", "you may not submit to this project")], 403)
    try:
        experiment = submit_once(
            person(request),
            project,
            parse_text(text),
            request.POST.get("once", "")[:200] or None,
            cloned_from=_source(request),
        ).experiment
    except SpecError as error:
        return _refused(request, text, error.errors, 422)
    except IdempotencyConflict:
        return _refused(request, text, [FieldError("", "the text changed after it was sent; send it again")], 409)
    except AccessDenied as error:
        return _refused(request, text, [FieldError("project", str(error))], 403)
    messages.success(request, f"“{experiment.name}” is queued.")
    return redirect("experiment", experiment.pk)


def _refused(request: HttpRequest, text: str, errors: list[FieldError], status: int) -> HttpResponse:
    return render(request, "experiments/new.html", _context(request, text, errors), status=status)


# From the form to the text


def _change(text: str, name: str, value: str) -> tuple[str, list[FieldError]]:
    try:
        document = parse_text(text) if text.strip() else {}
        return rewrite(text, changes_for(name, value, document)), []
    except SpecError as error:
        return text, error.errors
    except KeyError:
        return text, [FieldError("", f"the form has no field {name[:100]!r}")]


def _take_form(request: HttpRequest, text: str) -> tuple[str, list[FieldError]]:
    """The text with every control taken in that was changed since the form was drawn from `drawn`. The others say what
    the text said then, which may have been edited since."""
    for field in _controls(_lines(request.POST.get("drawn", text))):
        value = request.POST.get(field.name)
        if value is not None and value != field.value and not field.state:
            text, errors = _change(text, field.name, value)
            if errors:
                return text, errors
    return text, []


def _controls(text: str) -> list[Field]:
    try:
        document = parse_text(text) if text.strip() else {}
    except SpecError:
        return []
    return draw_form(document, offer_to(None)).controls


# What is drawn


def _context(request: HttpRequest, text: str, errors: list[FieldError] | None = None) -> dict[str, Any]:
    return {
        "section": "new",
        "examples": examples(),
        "source": _source(request),
        "projects": list(projects_of(person(request), Role.RESEARCHER).order_by("name")),
        "once": secrets.token_urlsafe(16),
        **_drawn(request, text, errors or []),
    }


def _drawn(request: HttpRequest, text: str, errors: list[FieldError]) -> dict[str, Any]:
    """The text, what is wrong with it or what it stands for, and the form."""
    project = chosen_project(request)
    try:
        document = parse_text(text) if text.strip() else {}
    except SpecError as error:
        return {"document": text, "project": project, "errors": error.errors, "form": Form(readable=False)}
    checked = _check(document, project)
    checked["errors"] = [*errors, *(one for one in checked.get("errors", []) if one not in errors)]
    form = draw_form(document, offer_to(project), checked["errors"])
    return {"document": text, "project": project, "form": form, **checked}


def _check(document: Mapping[str, Any], project: Project | None) -> dict[str, Any]:
    try:
        plan = plan_experiment(document)
        found = check_feasible(plan, project) if project is not None else None
    except SpecError as error:
        return {"errors": error.errors}
    ahead = preview(plan, project, found) if project is not None and found is not None else None
    return {
        "plan": plan,
        "cells": plan.cells[:SHOWN_TRIALS],
        "axes": [*plan.spec.matrix, *space_of(plan.spec)],
        "plans_ahead": plans_ahead(plan.spec),
        "most_runs": most_runs_of(plan),
        "warnings": ahead.warnings if ahead else [],
        "estimate": ahead.estimate if ahead else None,
    }


# What the request says


def _text(request: HttpRequest) -> str:
    return _lines(request.POST.get("document", ""))


def _lines(text: str) -> str:
    """As it was before a browser sent it."""
    return text.replace("\r\n", "\n")


def _source(request: HttpRequest) -> Experiment | None:
    """The experiment that `from` names, whose document is edited and run again."""
    wanted = (request.POST if request.method == "POST" else request.GET).get("from", "")
    return experiment_or_404(request, int(wanted)) if wanted.isdecimal() and len(wanted) < 19 else None


def _suggested(request: HttpRequest) -> str:
    """The document of what the bottleneck of the run that the address names suggests; empty where nothing is."""
    wanted = request.GET.get("run", "")
    if not (wanted.isdecimal() and len(wanted) < 19):
        return ""
    run = run_or_404(request, int(wanted))
    attempt = shown_attempt(run, attempts_of(run.pk))
    found = next_experiment(run, modelled=bool(RunOnNode(run, attempt).modelled))
    if found is None:
        messages.info(request, f"Run {run.pk} suggests no experiment.")
    return write(found.document) if found else ""


def _start(request: HttpRequest) -> str:
    """The text of the example that the address names, or of the first."""
    asked = find_example(request.GET.get("example", ""))
    return asked.text if asked else examples()[0].text
