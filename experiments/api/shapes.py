"""REST for the shapes of published models, which run with random weights: on modelled nodes all, on measured ones those
that the built-in runtime can make. Read only; the shapes come with the lab."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import Http404, HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from experiments.api.auth import person
from experiments.api.held_list import cut_page
from experiments.api.listing import Text
from experiments.api.paging import PageQuery
from experiments.api.schemas import READ_ERRORS, ShapeOut, ShapePage
from labsite.error_body import ErrorBody
from runners import shapes
from runners.shapes import ShapeRecord, UnknownShape

router = Router(tags=["models"])

Name = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
KEYS = {"name": lambda shape: shape.name, "parameters": lambda shape: shape.parameters}


class ShapeQuery(PageQuery):
    sort: Literal["name", "-name", "parameters", "-parameters"] = "name"
    search: Text | None = Field(default=None, description="A part of the name.")


@router.get("/shapes", response={200: ShapePage, READ_ERRORS: ErrorBody}, summary="Shapes of published models")
def list_shapes(request: HttpRequest, asked: Query[ShapeQuery]) -> ShapePage:
    person(request)
    page, following = find_shapes(asked)
    return ShapePage(items=[_shape_out(shape) for shape in page], next=following)


def find_shapes(asked: ShapeQuery) -> tuple[list[ShapeRecord], str | None]:
    """A page of the shapes, and the cursor of the next. Raises BadParameter."""
    words = (asked.search or "").casefold()
    found = [shapes.get(name) for name in shapes.names() if words in name]
    return cut_page(found, lambda shape: shape.name, KEYS, asked)


@router.get("/shapes/{shape}", response={200: ShapeOut, READ_ERRORS: ErrorBody}, summary="One shape")
def read_shape(request: HttpRequest, shape: Name) -> ShapeOut:
    person(request)
    try:
        return _shape_out(shapes.get(shape))
    except UnknownShape as error:
        raise Http404 from error


def _shape_out(record: ShapeRecord) -> ShapeOut:
    shape = record.to_mapping()
    refusal = shapes.why_not_measurable(shape)
    return ShapeOut(
        name=record.name,
        parameters=record.parameters,
        shape=shape,
        source=record.source,
        confidence=record.confidence,
        measurable=refusal is None,
        why_not_measurable="" if refusal is None else f"{refusal.field}: {refusal.message}",
    )
