"""What a person does to an experiment from its page: pause, resume, cancel, delete, restore, run again, edit.

Who may is asked by the services; a refusal is told on the page that the person came from.
"""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from experiments import services
from experiments.errors import ExperimentError
from experiments.models import Experiment
from experiments.pages.access import experiment_or_404, person
from experiments.pages.experiment import show_with_edit
from experiments.selectors import get_experiment
from labsite.accounts.models import User
from labsite.accounts.permissions import AccessDenied, may_control
from runners.document import FieldError, SpecError

Change = Callable[[User, Experiment], None]


@login_required
@require_POST
def pause(request: HttpRequest, experiment_id: int) -> HttpResponse:
    said = "Paused: what runs goes on, nothing that waits starts."
    return _change(request, experiment_id, services.pause_experiment, said)


@login_required
@require_POST
def resume(request: HttpRequest, experiment_id: int) -> HttpResponse:
    return _change(request, experiment_id, services.resume_experiment, "Resumed: what waits starts in its turn.")


@login_required
@require_POST
def cancel(request: HttpRequest, experiment_id: int) -> HttpResponse:
    said = "Cancelled: queued runs will not start, those under way are being ended."
    return _change(request, experiment_id, services.cancel_experiment, said)


@login_required
@require_POST
def delete(request: HttpRequest, experiment_id: int) -> HttpResponse:
    experiment = experiment_or_404(request, experiment_id)
    said = f"“{experiment.name}” is deleted. It can be restored for 30 days from the list of deleted ones."
    if _try(request, experiment, services.delete_experiment, said):
        return redirect("experiments")
    return redirect("experiment", experiment.pk)


@login_required
@require_POST
def restore(request: HttpRequest, experiment_id: int) -> HttpResponse:
    try:
        experiment = get_experiment(person(request), experiment_id, deleted_too=True)
        done = _try(request, experiment, services.restore_experiment, "Restored, as it was left.")
    except Experiment.DoesNotExist as error:
        raise Http404 from error
    return redirect("experiment", experiment.pk) if done else redirect("experiments")


@login_required
@require_POST
def run_again(request: HttpRequest, experiment_id: int) -> HttpResponse:
    """A clone with the same document, queued at once. The key in the form makes two clicks one clone."""
    experiment = experiment_or_404(request, experiment_id)
    key = request.POST.get("once", "")[:200] or None
    try:
        clone = services.clone_experiment(person(request), experiment, idempotency_key=key).experiment
    except SpecError as error:
        # What it was made for may be gone since then: a model, a node.
        messages.error(request, "It can’t be run again as it is: " + "; ".join(_said(one) for one in error.errors[:5]))
        return redirect(f"/experiments/new/?from={experiment.pk}")
    except (AccessDenied, ExperimentError) as error:
        messages.error(request, str(error))
        return redirect("experiment", experiment.pk)
    messages.success(request, f"Queued again, as experiment {clone.pk}.")
    return redirect("experiment", clone.pk)


@login_required
@require_POST
def edit(request: HttpRequest, experiment_id: int) -> HttpResponse:
    """Name, question, tags and priority. What is refused comes back in the form, with the reason at its field."""
    experiment = experiment_or_404(request, experiment_id)
    typed = {name: request.POST.get(name, "").strip() for name in ("name", "question", "tags", "priority")}
    try:
        services.edit_experiment(person(request), experiment, _edit_of(typed))
    except SpecError as error:
        return show_with_edit(request, experiment, typed, error.errors)
    except AccessDenied as error:
        if may_control(person(request), experiment.project, experiment.owner_id):  # then it was the priority
            return show_with_edit(request, experiment, typed, [FieldError("priority", str(error))], status=403)
        messages.error(request, str(error))
        return redirect("experiment", experiment.pk)
    messages.success(request, "Saved.")
    return redirect("experiment", experiment.pk)


def _edit_of(typed: dict[str, str]) -> services.Edit:
    tags = [tag.strip() for tag in typed["tags"].split(",") if tag.strip()]
    try:
        priority = int(typed["priority"] or "0")
    except ValueError as error:
        raise SpecError(
            [FieldError("priority", f"{typed['priority'][:40]!r} is no whole number", "-100 to 100")]
        ) from error
    return services.Edit(typed["name"], typed["question"].replace("\r\n", "\n"), tags, priority)


def _change(request: HttpRequest, experiment_id: int, change: Change, said: str) -> HttpResponse:
    experiment = experiment_or_404(request, experiment_id)
    _try(request, experiment, change, said)
    return redirect("experiment", experiment.pk)


def _try(request: HttpRequest, experiment: Experiment, change: Change, said: str) -> bool:
    try:
        change(person(request), experiment)
    except (AccessDenied, ExperimentError) as error:
        messages.error(request, str(error))
        return False
    messages.success(request, said)
    return True


def _said(fault: FieldError) -> str:
    return f"{fault.field or 'document'}: {fault.message}"
