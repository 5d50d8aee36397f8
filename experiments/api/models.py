"""REST for the models that experiments may name: list, read, register, retire.

An entry is described where the model's files are, by `inference-lab models add`; the lab checks what is said and never
reads the files.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Path, Query, Router, Status
from pydantic import Field

from experiments.api.auth import person
from experiments.api.body import read_document
from experiments.api.held_list import cut_page
from experiments.api.listing import Text
from experiments.api.paging import PageQuery
from experiments.api.schemas import READ_ERRORS, SUBMIT_ERRORS, ModelFileOut, ModelOut, ModelPage
from experiments.registered import KnownModel, find_known, known_models
from experiments.services.registering import register_model, retire_model
from hardware.selectors import nodes_visible_to
from labsite.accounts.models import User
from labsite.error_body import ErrorBody

router = Router(tags=["models"])

Name = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
KEYS = {"name": lambda model: model.entry.name, "bytes": lambda model: model.entry.bytes}
# The schema's name is that of runners.models.ModelEntry; labsite.api adds it to the published components.
ENTRY_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ModelEntry"}}},
    }
}


class ModelQuery(PageQuery):
    sort: Literal["name", "-name", "bytes", "-bytes"] = "name"
    search: Text | None = Field(default=None, description="A part of the name, title or architecture.")
    format: Literal["gguf", "safetensors"] | None = None
    retired: bool = Field(default=False, description="Retired ones too.")


@router.get("/models", response={200: ModelPage, READ_ERRORS: ErrorBody}, summary="Models that experiments may name")
def list_models(request: HttpRequest, asked: Query[ModelQuery]) -> ModelPage:
    page, following = find_models(asked)
    holders = holders_of(person(request))
    return ModelPage(items=[_model_out(model, holders) for model in page], next=following)


def find_models(asked: ModelQuery) -> tuple[list[KnownModel], str | None]:
    """A page of the models, and the cursor of the next. Raises BadParameter."""
    found = [model for model in known_models() if _is_asked(model, asked)]
    return cut_page(found, lambda model: model.entry.name, KEYS, asked)


@router.get("/models/{name}", response={200: ModelOut, READ_ERRORS: ErrorBody}, summary="One model")
def read_model(request: HttpRequest, name: Name) -> ModelOut:
    return _model_out(find_known(name), holders_of(person(request)))


@router.post(
    "/models",
    response={201: ModelOut, SUBMIT_ERRORS: ErrorBody},
    openapi_extra=ENTRY_BODY,
    summary="Register a model",
    description="For who is operator in some project. The same entry again gives the same model.",
)
def register(request: HttpRequest) -> Status[ModelOut]:
    user = person(request)
    name = register_model(user, read_document(request)).name
    return Status(201, _model_out(find_known(name), holders_of(user)))


@router.delete(
    "/models/{name}",
    response={204: None, READ_ERRORS | {403, 409}: ErrorBody},
    summary="Retire a model",
    description="New experiments can't name it; runs that were made for it go on.",
)
def retire(request: HttpRequest, name: Name) -> Status[None]:
    retire_model(person(request), name)
    return Status(204, None)


def _is_asked(model: KnownModel, asked: ModelQuery) -> bool:
    if model.retired and not asked.retired:
        return False
    if asked.format not in (None, model.entry.format):
        return False
    words = f"{model.entry.name} {model.entry.title} {model.entry.architecture}".casefold()
    return asked.search is None or asked.search.casefold() in words


def holders_of(user: User) -> dict[tuple[str, str], list[str]]:
    """The user's nodes by name and hash of the models that they hold."""
    holders: dict[tuple[str, str], list[str]] = {}
    for slug, held in nodes_visible_to(user).order_by("slug").values_list("slug", "models_held"):
        for model in held:
            holders.setdefault((model["name"], model["sha256"]), []).append(slug)
    return holders


def _model_out(model: KnownModel, holders: dict[tuple[str, str], list[str]]) -> ModelOut:
    entry, record = model.entry, model.record
    return ModelOut(
        name=entry.name,
        title=entry.title,
        licence=entry.licence,
        format=entry.format,
        architecture=entry.architecture,
        quantization=entry.quantization,
        source=entry.source.model_dump(mode="json"),
        source_text=str(entry.source),
        bytes=entry.bytes,
        sha256=entry.sha256,
        files=[ModelFileOut(name=file.name, bytes=file.bytes, sha256=file.sha256) for file in entry.files],
        shape=entry.shape,
        shipped=record is None,
        retired=model.retired,
        registered_by=record.created_by.username if record and record.created_by else None,
        registered_at=record.created_at if record else None,
        nodes=holders.get((entry.name, entry.sha256), []),
    )
