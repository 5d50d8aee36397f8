"""REST for downloads: the records of a run or an experiment, streamed as JSONL, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Path, Query, Router

from experiments import selectors
from experiments.api.auth import person
from experiments.api.schemas import READ_ERRORS
from experiments.exports.build import Export, ExportKind, RecordKind, export_experiment, export_run
from experiments.exports.bundle import bundle_of, check_ended
from experiments.exports.foreign import CONTENT_TYPES as FOREIGN_TYPES
from experiments.exports.foreign import FORMATS, Tool, foreign_bytes, stream_bytes
from experiments.exports.formats import CONTENT_TYPES, Format
from experiments.exports.stream import stream_table
from labsite.accounts.audit import record
from labsite.error_body import ErrorBody

router = Router(tags=["exports"])

EXPORT_ERRORS = READ_ERRORS | {409}
BINARY = {"type": "string", "contentMediaType": "application/octet-stream"}
DOWNLOAD: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The file, as an attachment",
            "content": {kind.partition(";")[0]: {"schema": BINARY} for kind in CONTENT_TYPES.values()},
        }
    }
}
BUNDLE: dict[str, Any] = {
    "responses": {200: {"description": "The bundle", "content": {"application/zip": {"schema": BINARY}}}}
}
FOREIGN: dict[str, Any] = {
    "responses": {200: {"description": "The file", "content": {"application/json": {"schema": {"type": "object"}}}}}
}
FOREIGN_LINES: dict[str, Any] = {
    "responses": {200: {"description": "The file", "content": {"application/x-ndjson": {"schema": BINARY}}}}
}
DESCRIPTION = """Each row says whose it is (`run_id`, `attempt`) and whether it is `modelled`. In CSV a list is JSON in
one cell, and text that a spreadsheet would run as a formula begins with an apostrophe. A Parquet file names the
experiment, the run and the lab's version in its schema's metadata. Pages of the same records as JSON are at
`/runs/{run_id}/requests` and its neighbours."""

Number = Annotated[
    int | None, Query(ge=1, lt=2**31, description="Another attempt than the final one; needed while the run goes on.")
]
RecordPath = Annotated[RecordKind, Path(description="Which records.")]
ExportPath = Annotated[ExportKind, Path(description="Which records, or one row for each run with its figures.")]
FormatPath = Annotated[Format, Path()]


@router.get(
    "/runs/{int:run_id}/export/{kind}.{form}",
    response={EXPORT_ERRORS: ErrorBody},
    openapi_extra=DOWNLOAD,
    summary="Download a run's records",
    description=DESCRIPTION,
)
def download_run(
    request: HttpRequest, run_id: int, kind: RecordPath, form: FormatPath, attempt: Number = None
) -> HttpResponseBase:
    user = person(request)
    run = selectors.get_run(user, run_id)
    export = export_run(run, kind, attempt)
    record(user, "run.export", run, project=run.experiment.project, kind=kind, format=form)
    return download(export, form)


@router.get(
    "/experiments/{int:experiment_id}/export/{kind}.{form}",
    response={EXPORT_ERRORS: ErrorBody},
    openapi_extra=DOWNLOAD,
    summary="Download an experiment's records, or its runs",
    description=DESCRIPTION + " `Lab-Runs-Left-Out` counts the runs that have not ended and so are not in it.",
)
def download_experiment(
    request: HttpRequest, experiment_id: int, kind: ExportPath, form: FormatPath
) -> HttpResponseBase:
    user = person(request)
    experiment = selectors.get_experiment(user, experiment_id)
    export = export_experiment(experiment, kind)
    record(user, "experiment.export", experiment, kind=kind, format=form)
    return download(export, form)


@router.get(
    "/experiments/{int:experiment_id}/bundle.zip",
    response={EXPORT_ERRORS: ErrorBody},
    openapi_extra=BUNDLE,
    summary="Download an ended experiment whole, for another lab to import",
    description="Document, specs, records, figures and what each run ran on, with hashes; `POST /imports` takes it.",
)
def download_bundle(request: HttpRequest, experiment_id: int) -> HttpResponseBase:
    user = person(request)
    experiment = selectors.get_experiment(user, experiment_id)
    check_ended(experiment)
    record(user, "experiment.export", experiment, kind="bundle", format="zip")
    return _attached(bundle_of(experiment), "application/zip", f"experiment-{experiment.pk}-bundle.zip")


@router.get(
    "/runs/{int:run_id}/vllm.json",
    response={EXPORT_ERRORS: ErrorBody},
    openapi_extra=FOREIGN,
    summary="Download a run as vLLM's detailed bench JSON",
    description="As `vllm bench serve --save-detailed` writes it; generated texts are empty, as they are not kept.",
)
def download_vllm(request: HttpRequest, run_id: int) -> HttpResponseBase:
    return _foreign(request, run_id, "vllm")


@router.get(
    "/runs/{int:run_id}/aiperf.jsonl",
    response={EXPORT_ERRORS: ErrorBody},
    openapi_extra=FOREIGN_LINES,
    summary="Download a run as AIPerf's records",
    description="One request a line, as in AIPerf's `profile_export.jsonl`.",
)
def download_aiperf(request: HttpRequest, run_id: int) -> HttpResponseBase:
    return _foreign(request, run_id, "aiperf")


def _foreign(request: HttpRequest, run_id: int, tool: Tool) -> HttpResponseBase:
    user = person(request)
    run = selectors.get_run(user, run_id)
    pieces = foreign_bytes(run, tool)
    record(user, "run.export", run, project=run.experiment.project, kind="requests", format=tool)
    return _attached(pieces, FOREIGN_TYPES[tool], f"run-{run.pk}-{tool}.{FORMATS[tool]}")


def _attached(pieces: Iterator[bytes], content_type: str, name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(stream_bytes(pieces), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "private, no-store"
    return response


def download(export: Export, form: Format) -> StreamingHttpResponse:
    response = StreamingHttpResponse(stream_table(form, export.table), content_type=CONTENT_TYPES[form])
    response["Content-Disposition"] = f'attachment; filename="{export.stem}.{form}"'
    response["Cache-Control"] = "private, no-store"
    response["Lab-Runs"] = str(export.runs)
    response["Lab-Runs-Left-Out"] = str(export.left_out)
    return response
