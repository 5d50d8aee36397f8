"""REST for traces: registering a file of recorded traffic, looking at it, removing it; and a node's way to its file.

A file comes as the raw body, whatever its format, and is read as a stream.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO, Literal, cast

from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router, Schema, Status
from ninja.errors import HttpError
from pydantic import Field

from experiments import selectors
from experiments.api.auth import person
from experiments.api.listing import Text, given
from experiments.api.paging import PageQuery, read_page
from experiments.api.schemas import READ_ERRORS, STATE_ERRORS, SUBMIT_ERRORS, PageOut
from experiments.services.traces import MAX_UPLOAD_BYTES, add_trace, remove_trace
from experiments.trace_models import Trace
from experiments.trace_store import path_of
from experiments.traces import first_lines, readable_traces
from labsite.accounts.models import User
from labsite.error_body import ErrorBody
from runners.traces.formats import FormatName

router = Router(tags=["traces"])

CHUNK_BYTES = 1024 * 1024
CONTENT_TYPES = ("application/octet-stream", "application/x-ndjson", "application/json", "text/csv", "text/plain")
BINARY = {"type": "string", "contentMediaType": "application/octet-stream"}
FILE_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": BINARY}}}
}
DOWNLOAD: dict[str, Any] = {
    "responses": {200: {"description": "The file", "content": {"application/x-ndjson": {"schema": BINARY}}}}
}
COLUMNS = {"name": "name", "created_at": "pk", "rows": "rows"}


class TraceQuery(PageQuery):
    sort: Literal["name", "-name", "created_at", "-created_at", "rows", "-rows"] = "name"
    search: Text | None = Field(default=None, description="A part of the name.")
    name: Text | None = Field(default=None, description="Exactly this name.")
    project: Text | None = Field(default=None, description="Slug.")
    format: FormatName | None = None


class TraceIn(Schema):
    """The parameters beside the file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")
    project: str | None = Field(default=None, max_length=60, description="Slug; may be left out by who has one.")
    format: FormatName | None = Field(default=None, description="Left out: told from the first line.")
    block_tokens: int | None = Field(
        default=None, ge=1, le=65_536, description="What an id of `prefix_ids` stands for, in the custom format: 512."
    )
    skip_bad_lines: bool = Field(default=False, description="Leave out what can't be read, and count it.")


class TraceItem(Schema):
    id: int
    name: str
    project: str
    format: str
    rows: int
    bytes: int
    sha256: str = Field(description="Of the rows as the lab keeps them; a run is frozen with it.")
    duration_s: float
    request_rate: float | None = Field(description="Rows per second; null where they have no times.")
    sharing_rate: float | None = Field(
        description="Share of the prompts' blocks that came in the trace before; null without prefix ids."
    )
    created_by: str | None
    created_at: datetime


class BadLineOut(Schema):
    line: int
    message: str


class TraceOut(TraceItem):
    source_sha256: str = Field(description="Of the file that was sent.")
    block_tokens: int
    skipped: int = Field(description="Lines that gave no row.")
    bad_lines: list[BadLineOut] = Field(description="The first of them.")
    experiments: int = Field(description="How many name it; 0: it can be removed.")
    summary: dict[str, Any] = Field(description="Lengths' percentiles, histograms, sessions, classes.")


class TracePage(PageOut):
    items: list[TraceItem]


class PreviewOut(Schema):
    rows: list[dict[str, Any]] = Field(description="The first rows, as the lab keeps them.")


@router.get("/traces", response={200: TracePage, READ_ERRORS: ErrorBody}, summary="Traces that experiments may replay")
def list_traces(request: HttpRequest, asked: Query[TraceQuery]) -> TracePage:
    found, following = find_traces(person(request), asked)
    return TracePage(items=[TraceItem(**item_of(trace)) for trace in found], next=following)


def find_traces(user: User, asked: TraceQuery) -> tuple[list[Trace], str | None]:
    """A page of the user's traces, and the cursor of the next. Raises BadParameter."""
    conditions = {
        "name": asked.name,
        "name__icontains": asked.search,
        "project__slug": asked.project,
        "format": asked.format,
    }
    page = read_page(readable_traces(user).filter(**given(conditions)), COLUMNS, asked)
    return page.items, page.next


@router.post(
    "/traces",
    response={200: TraceOut, 201: TraceOut, SUBMIT_ERRORS: ErrorBody},
    openapi_extra=FILE_BODY,
    summary="Register a trace",
    description="The body is the file: Mooncake, Bailian or custom JSONL, Azure or BurstGPT CSV, ShareGPT JSON or "
    f"JSONL; at most {MAX_UPLOAD_BYTES} bytes and a million rows. A line that can't be read refuses it, by its number. "
    "The same rows under the same name again give the same trace (200).",
)
def add(request: HttpRequest, asked: Query[TraceIn]) -> Status[TraceOut]:
    user = person(request)
    project = selectors.get_project(user, asked.project)
    with received(request) as file:
        trace, created = add_trace(
            user,
            project,
            asked.name,
            file,
            format_name=asked.format,
            block_tokens=asked.block_tokens,
            skip_bad_lines=asked.skip_bad_lines,
        )
    return Status(201 if created else 200, trace_out(trace))


@router.get("/traces/{int:trace_id}", response={200: TraceOut, READ_ERRORS: ErrorBody}, summary="One trace")
def read(request: HttpRequest, trace_id: int) -> TraceOut:
    return trace_out(readable_traces(person(request)).get(pk=trace_id))


@router.get(
    "/traces/{int:trace_id}/preview", response={200: PreviewOut, READ_ERRORS: ErrorBody}, summary="Its first rows"
)
def preview(request: HttpRequest, trace_id: int) -> PreviewOut:
    trace = readable_traces(person(request)).get(pk=trace_id)
    return PreviewOut(rows=[json.loads(line) for line in first_lines(trace)])


@router.get(
    "/traces/{int:trace_id}/file",
    response={READ_ERRORS: ErrorBody},
    openapi_extra=DOWNLOAD,
    summary="Download it, in the lab's own format",
)
def download(request: HttpRequest, trace_id: int) -> HttpResponseBase:
    trace = readable_traces(person(request)).get(pk=trace_id)
    return file_of(trace.sha256, f"{trace.name}.jsonl")


@router.delete(
    "/traces/{int:trace_id}",
    response={204: None, STATE_ERRORS: ErrorBody},
    summary="Remove a trace",
    description="Whoever registered it, or an operator. Refused while an experiment names it.",
)
def remove(request: HttpRequest, trace_id: int) -> Status[None]:
    user = person(request)
    remove_trace(user, readable_traces(user).get(pk=trace_id))
    return Status(204, None)


@contextmanager
def received(request: HttpRequest) -> Iterator[BinaryIO]:
    """The request's body as a file that can be read twice. Raises HttpError (413, 415)."""
    kind = (request.content_type or "").lower()
    if kind not in CONTENT_TYPES:
        raise HttpError(415, f"content type {kind or 'missing'}; allowed: {', '.join(CONTENT_TYPES)}")
    with tempfile.TemporaryFile() as file:
        size = 0
        while chunk := request.read(CHUNK_BYTES):
            size += len(chunk)
            if size > MAX_UPLOAD_BYTES:
                raise HttpError(413, f"the file is larger than {MAX_UPLOAD_BYTES} bytes")
            file.write(chunk)
        file.seek(0)
        yield cast("BinaryIO", file)


def file_of(sha256: str, name: str) -> FileResponse:
    path = path_of(sha256)
    return FileResponse(path.open("rb"), as_attachment=True, filename=name, content_type="application/x-ndjson")


def item_of(trace: Trace) -> dict[str, Any]:
    shared = trace.summary["sharing_rate"]
    return {
        "id": trace.pk,
        "name": trace.name,
        "project": trace.project.slug,
        "format": trace.format,
        "rows": trace.rows,
        "bytes": trace.bytes,
        "sha256": trace.sha256,
        "duration_s": trace.summary["duration_s"],
        "request_rate": trace.summary["request_rate"],
        "sharing_rate": shared["share"] if shared else None,
        "created_by": trace.created_by.username if trace.created_by else None,
        "created_at": trace.created_at,
    }


def trace_out(trace: Trace) -> TraceOut:
    return TraceOut(
        **item_of(trace),
        source_sha256=trace.source_sha256,
        block_tokens=trace.block_tokens,
        skipped=trace.skipped,
        bad_lines=[BadLineOut(**line) for line in trace.bad_lines],
        experiments=trace.experiments.count(),
        summary=trace.summary,
    )
