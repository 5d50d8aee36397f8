"""Chip records: what a chip can do at most, each figure with its source and how far that is to be trusted.

A record is read from one TOML file of hardware/catalog and is frozen with every run that used it. Figures are
the vendor's dense rates (never with sparsity), in the units of their names; null means not native or not
published. What a chip reaches in practice is calibration, and not kept here.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

Positive = Annotated[float, Field(gt=0)]
Format = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "fp4", "mxfp4", "nvfp4"]
CATALOG_DIR = Path(__file__).resolve().parent.parent / "hardware" / "catalog"


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Memory(Record):
    type: str
    capacity_bytes: Annotated[int, Field(gt=0)]
    bandwidth_bytes_per_s: Positive


class FigureSource(Record):
    """Where a figure came from. `field` is its dotted path, or that of a table which shares one.

    Confidence `recall` means that no stored source was found.
    """

    field: str
    source: Annotated[str, Field(min_length=1)]
    confidence: Literal["high", "medium", "low", "recall"]


class ChipRecord(Record):
    """One chip. Peak rates are in TFLOP/s (TOP/s for integer formats); price and power are of one chip."""

    chip_id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    vendor: Annotated[str, Field(min_length=1, max_length=100)]
    kind: Literal["gpu", "cpu", "npu", "asic", "other"]
    year: Annotated[int, Field(ge=2000, le=2100)]
    status: Literal["shipping", "announced", "retired"]
    speculative: bool = False
    dense_tflops: dict[Format, Positive | None]
    memory: Memory
    tdp_w: Positive | None = None
    usd_per_hour: Positive | None = None
    sources: tuple[FigureSource, ...]

    @model_validator(mode="after")
    def every_figure_has_a_source(self) -> Self:
        unsourced = [path for path in self.figures() if self.source_of(path) is None]
        if unsourced:
            raise PydanticCustomError(
                "unsourced", "no source for {fields}", {"field": "sources", "fields": ", ".join(unsourced)}
            )
        return self

    @model_validator(mode="after")
    def every_source_has_a_figure(self) -> Self:
        figures = self.figures()
        for entry in self.sources:
            if not any(path == entry.field or path.startswith(f"{entry.field}.") for path in figures):
                raise PydanticCustomError(
                    "sources_nothing",
                    "the source for {named} belongs to no figure of this record",
                    {"field": "sources", "named": entry.field},
                )
        return self

    def figures(self) -> tuple[str, ...]:
        """Dotted paths of all figures that the record states."""
        rates = [f"dense_tflops.{name}" for name, value in self.dense_tflops.items() if value is not None]
        memory = ["memory.capacity_bytes", "memory.bandwidth_bytes_per_s"]
        rest = [name for name in ("tdp_w", "usd_per_hour") if getattr(self, name) is not None]
        return (*rates, *memory, *rest)

    def source_of(self, path: str) -> FigureSource | None:
        """The source of a figure: its own entry, else that of the table it stands in."""
        by_field = {entry.field: entry for entry in self.sources}
        return by_field.get(path) or by_field.get(path.rpartition(".")[0])

    def peak_flops(self, fmt: Format) -> float | None:
        """Dense peak in FLOP/s of a format that the chip computes natively, else None."""
        tflops = self.dense_tflops.get(fmt)
        return None if tflops is None else tflops * 1e12


class CatalogError(Exception):
    """A catalog file is wrong: which file, which field, and what is wrong with it."""

    def __init__(self, path: Path, field: str, message: str) -> None:
        super().__init__(f"{path.name}: {field}: {message}" if field else f"{path.name}: {message}")
        self.path = path
        self.field = field


def load_catalog(directory: Path = CATALOG_DIR) -> list[ChipRecord]:
    """All records of the directory, by chip id. Raises CatalogError."""
    paths = sorted(directory.glob("*.toml"))
    if not paths:
        raise CatalogError(directory, "", "holds no *.toml file")
    return [load_record(path) for path in paths]


def load_record(path: Path) -> ChipRecord:
    """The record of one file, which must be named after its `chip_id`. Raises CatalogError."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogError(path, "", f"is not TOML: {error}") from error
    try:
        record = ChipRecord.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or str(first.get("ctx", {}).get("field", ""))
        raise CatalogError(path, field, first["msg"]) from error
    if record.chip_id != path.stem:
        raise CatalogError(path, "chip_id", f"is {record.chip_id!r}, but the file's name says {path.stem!r}")
    return record
