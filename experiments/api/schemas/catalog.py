"""Chips, models and published shapes, as the API gives them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from experiments.api.schemas.common import PageOut


class ChipOut(Schema):
    chip_id: str
    version: int
    name: str
    vendor: str
    kind: str
    origin: str = Field(description="Who made this version: `catalog`, a file of the lab, or `admin`, a person.")
    record: dict[str, Any] = Field(description="Every figure of the chip, with its source.")


class ChipPage(PageOut):
    items: list[ChipOut]


class ModelFileOut(Schema):
    name: str
    bytes: int
    sha256: str


class ModelOut(Schema):
    name: str
    title: str
    licence: str
    format: str
    architecture: str
    quantization: str
    source: dict[str, Any] = Field(description="`kind` is wheel, hub or local; the rest says where there.")
    source_text: str
    bytes: int
    sha256: str = Field(description="Of the one file; of several that of their sha256sum lines, sorted by name.")
    files: list[ModelFileOut]
    shape: dict[str, Any] = Field(description="Layers, widths, vocabulary, context and parameters, in plain numbers.")
    shipped: bool = Field(description="Comes with the lab: never retired.")
    retired: bool
    registered_by: str | None
    registered_at: datetime | None
    nodes: list[str] = Field(description="Nodes of yours that already hold the files.")


class ModelPage(Schema):
    items: list[ModelOut]
    next: str | None = Field(description="Pass it as `cursor` for the next page; null on the last.")


class ShapeOut(Schema):
    name: str
    parameters: float = Field(description="As its makers give them.")
    shape: dict[str, Any] = Field(description="Layers and widths, with the keys of a registered model's shape.")
    source: str
    confidence: str
    measurable: bool = Field(description="Whether measured nodes take it too, with random weights.")
    why_not_measurable: str


class ShapePage(PageOut):
    items: list[ShapeOut]
