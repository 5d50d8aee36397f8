"""Recorded traffic that experiments may replay: what there is, what each is like, registering and removing one."""

from __future__ import annotations

from typing import Any, BinaryIO, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST
from pydantic import ValidationError

from experiments.api.traces import TraceIn, TraceQuery, find_traces, item_of
from experiments.errors import ExperimentError
from experiments.figures.trace import arrivals_figure, lengths_figure
from experiments.pages.access import person
from experiments.pages.listing import ask, list_context, take
from experiments.selectors import ProjectUnclear, get_project
from experiments.services.traces import MAX_UPLOAD_BYTES, TraceRefused, add_trace, remove_trace
from experiments.trace_models import Trace
from experiments.traces import first_lines, readable_traces
from labsite.accounts.models import Role
from labsite.accounts.permissions import AccessDenied, may_control, projects_of
from runners.traces.formats import FORMAT_OF

SHOWN_EXPERIMENTS = 20
TOLD_FAULTS = 5


@login_required
def trace_list(request: HttpRequest) -> HttpResponse:
    user = person(request)
    (traces, following), asked = take(ask(TraceQuery, request), lambda query: find_traces(user, query))
    context = {
        "section": "traces",
        "rows": [{"trace": trace, **item_of(trace)} for trace in traces],
        "formats": tuple(FORMAT_OF),
        "titles": [(form.name, form.title) for form in FORMAT_OF.values()],
        "projects": list(projects_of(user, Role.RESEARCHER).order_by("name")),
        **list_context(asked, following),
    }
    return render(request, "experiments/traces.html", context)


@login_required
@require_POST
def add(request: HttpRequest) -> HttpResponse:
    """Registers the file of the page's form; what is wrong with it is told on the list."""
    user = person(request)
    file = request.FILES.get("file")
    try:
        asked = TraceIn.model_validate({key: value for key in TraceIn.model_fields if (value := request.POST.get(key))})
        project = get_project(user, asked.project)
    except ValidationError as error:
        messages.error(request, "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in error.errors()))
        return redirect("traces")
    except ProjectUnclear as error:
        raise PermissionDenied(str(error)) from error
    if not isinstance(file, UploadedFile) or (file.size or 0) > MAX_UPLOAD_BYTES:
        messages.error(request, f"file: none, or larger than {MAX_UPLOAD_BYTES:,} bytes")
        return redirect("traces")
    try:
        trace, _ = add_trace(
            user, project, asked.name, cast("BinaryIO", file.file), format_name=asked.format,
            block_tokens=asked.block_tokens, skip_bad_lines=asked.skip_bad_lines,
        )  # fmt: skip
    except AccessDenied as error:
        raise PermissionDenied(str(error)) from error
    except TraceRefused as error:
        told = "; ".join(f"{where}: {words}" for where, words in error.faults[:TOLD_FAULTS])
        messages.error(request, f"{asked.name} is refused, {error.count} fault{'s' * (error.count > 1)}: {told}")
        return redirect("traces")
    except ExperimentError as error:
        messages.error(request, str(error))
        return redirect("traces")
    messages.success(request, f"{trace.name} is registered: {trace.rows:,} requests.")
    return redirect("trace", trace.pk)


@login_required
def show_trace(request: HttpRequest, trace_id: int) -> HttpResponse:
    trace = _trace_or_404(request, trace_id)
    user, histograms = person(request), trace.summary["histograms"]
    context: dict[str, Any] = {
        "section": "traces",
        "trace": trace,
        "title": FORMAT_OF[trace.format].title,
        "summary": trace.summary,
        "item": item_of(trace),
        "lengths": [("Prompt", trace.summary["input_tokens"]), ("Answer", trace.summary["output_tokens"])],
        "lengths_figure": lengths_figure(histograms["input_tokens"], histograms["output_tokens"]),
        "arrivals_figure": arrivals_figure(histograms["arrivals"]) if histograms["arrivals"] else None,
        "lines": [line.decode().strip() for line in first_lines(trace)[:5]],
        "experiments": trace.experiments.filter(deleted_at=None).order_by("-id")[:SHOWN_EXPERIMENTS],
        "used": trace.experiments.exists(),
        "controls": may_control(user, trace.project, trace.created_by_id or 0),
    }
    return render(request, "experiments/trace.html", context)


@login_required
@require_POST
def remove(request: HttpRequest, trace_id: int) -> HttpResponse:
    trace = _trace_or_404(request, trace_id)
    try:
        remove_trace(person(request), trace)
    except AccessDenied as error:
        raise PermissionDenied(str(error)) from error
    except ExperimentError as error:
        messages.error(request, str(error))
        return redirect("trace", trace_id)
    messages.success(request, f"{trace.name} is removed.")
    return redirect("traces")


def _trace_or_404(request: HttpRequest, trace_id: int) -> Trace:
    try:
        return readable_traces(person(request)).get(pk=trace_id)
    except Trace.DoesNotExist as error:
        raise Http404 from error
