"""Importing results from the list of experiments: a file is sent, and its experiment shown; what is wrong is told."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from experiments.errors import ExperimentError
from experiments.importing.any_file import import_upload
from experiments.importing.upload import kept
from experiments.pages.access import chosen_project, person
from runners.interchange.errors import BadFile


@login_required
@require_POST
def import_results(request: HttpRequest) -> HttpResponse:
    project = chosen_project(request)
    if project is None:
        raise PermissionDenied("you may import into no such project")
    file = request.FILES.get("file")
    if not isinstance(file, UploadedFile):
        messages.error(request, "Choose the file to import.")
        return redirect("experiments")
    try:
        with kept(file, file.name or "file") as upload:
            experiment = import_upload(person(request), project, upload)
    except (BadFile, ExperimentError) as error:
        allowed = getattr(error, "allowed", None)
        messages.error(request, f"The file is refused: {error}" + (f" (allowed: {allowed})" if allowed else ""))
        return redirect("experiments")
    messages.success(request, f"“{experiment.name}” is imported.")
    return redirect("experiment", experiment.pk)
