"""The models that experiments may name: which there are, what each is made of, and which nodes hold it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from experiments.api.models import ModelQuery, find_models, holders_of
from experiments.errors import ExperimentError
from experiments.models import RegisteredModel
from experiments.pages.access import person
from experiments.pages.listing import ask, list_context, take
from experiments.published_shapes import shape_rows
from experiments.registered import KnownModel, find_known
from experiments.services.registering import register_model, retire_model
from labsite.accounts.models import Role
from labsite.accounts.permissions import AccessDenied, has_role_anywhere

FILES_SHOWN = 200


@login_required
def model_list(request: HttpRequest) -> HttpResponse:
    (models, following), asked = take(ask(ModelQuery, request), find_models)
    holders = holders_of(person(request))
    context = {
        "section": "models",
        "rows": [
            {"model": model, "nodes": holders.get((model.entry.name, model.entry.sha256), [])} for model in models
        ],
        "formats": ("gguf", "safetensors"),
        "shapes": shape_rows(),
        "operates": has_role_anywhere(person(request), Role.OPERATOR),
        **list_context(asked, following),
    }
    return render(request, "experiments/models.html", context)


@login_required
def show_model(request: HttpRequest, name: str) -> HttpResponse:
    model = _model_or_404(name)
    entry = model.entry
    context = {
        "section": "models",
        "model": model,
        "entry": entry,
        "files": entry.files[:FILES_SHOWN],
        "shape": _shape_rows(entry.shape),
        "nodes": holders_of(person(request)).get((entry.name, entry.sha256), []),
        "operates": has_role_anywhere(person(request), Role.OPERATOR),
    }
    return render(request, "experiments/model.html", context)


@login_required
@require_POST
def retire(request: HttpRequest, name: str) -> HttpResponse:
    _model_or_404(name)
    try:
        retire_model(person(request), name)
    except AccessDenied as error:
        raise PermissionDenied(str(error)) from error
    except ExperimentError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{name} is retired: new experiments can’t name it. Runs that have it go on.")
    return redirect("model", name)


@login_required
@require_POST
def take_back(request: HttpRequest, name: str) -> HttpResponse:
    """A retired model, registered again as it was."""
    model = _model_or_404(name)
    try:
        register_model(person(request), model.entry.to_dict())
    except AccessDenied as error:
        raise PermissionDenied(str(error)) from error
    except ExperimentError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{name} can be named by experiments again.")
    return redirect("model", name)


def _model_or_404(name: str) -> KnownModel:
    try:
        return find_known(name)
    except RegisteredModel.DoesNotExist as error:
        raise Http404 from error


def _shape_rows(shape: dict[str, Any]) -> list[tuple[str, Any]]:
    """Whole numbers with their digits in groups, everything else as it is written."""
    return [(key, f"{value:,}".replace(",", "\u2009") if type(value) is int else value) for key, value in shape.items()]
