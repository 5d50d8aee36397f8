"""REST for results that were not made here: a file of another tool or a bundle of another lab is sent, and becomes an
experiment."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from experiments import selectors
from experiments.api.auth import person
from experiments.api.experiments import ProjectSlug
from experiments.api.present import experiment_item
from experiments.api.schemas import SUBMIT_ERRORS, ExperimentItem
from experiments.errors import BadParameter
from experiments.importing.any_file import import_upload
from experiments.importing.upload import kept
from labsite.error_body import ErrorBody
from runners.interchange.errors import BadFile

router = Router(tags=["imports"])

BINARY = "application/octet-stream"
FILE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {BINARY: {"schema": {"type": "string", "contentMediaType": BINARY}}},
    }
}
DESCRIPTION = """The body is the file itself: vLLM bench JSON, AIPerf JSON or JSONL, GuideLLM JSON, an llm-d benchmark
report, InferenceX rows, or a bundle of another lab; which of them is seen by its content. Where it has requests, the
figures are computed anew from them, for large files some seconds after the answer. Such an experiment is `imported`
wherever it is shown."""

FileName = Annotated[str, Query(max_length=200, description="What the file is called, to be shown.")]
ExperimentName = Annotated[str, Query(max_length=200, description="The experiment's name; else it is the file's.")]


@router.post(
    "/imports",
    response={201: ExperimentItem, SUBMIT_ERRORS: ErrorBody},
    openapi_extra=FILE_BODY,
    summary="Import results",
    description=DESCRIPTION,
)
def import_results(
    request: HttpRequest, file: FileName = "file", name: ExperimentName = "", project: ProjectSlug = None
) -> Status[ExperimentItem]:
    user = person(request)
    space = selectors.get_project(user, project)
    with kept(request, file) as upload:
        try:
            experiment = import_upload(user, space, upload, name.strip())
        except BadFile as error:
            raise BadParameter(f"file {error.where}".strip(), error.message, error.allowed) from error
    counts = selectors.count_runs([experiment.pk])
    return Status(201, experiment_item(experiment, counts[experiment.pk]))
