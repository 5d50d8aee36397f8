"""Reads the files of hardware/catalog, one record each; a fault names the file, the figure, and what is wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runners.chips.record import ChipRecord

CATALOG_DIR = Path(__file__).resolve().parent.parent.parent / "hardware" / "catalog"


class CatalogError(Exception):
    """A catalog file is wrong: which file, which field, and what is wrong with it."""

    def __init__(self, path: Path, field: str, message: str) -> None:
        super().__init__(f"{path.name}: {field}: {message}" if field else f"{path.name}: {message}")
        self.path = path
        self.field = field


class RecordError(ValueError):
    """Data that are no chip record: `faults` are (dotted field, what is wrong) of everything found."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {message}" if field else message for field, message in faults))
        self.faults = faults


def read_record(data: Mapping[str, Any]) -> ChipRecord:
    """The record of plain data. Raises RecordError."""
    try:
        return ChipRecord.model_validate(data)
    except ValidationError as error:
        faults = []
        for fault in error.errors():
            field = ".".join(map(str, fault["loc"]))
            named = str(fault.get("ctx", {}).get("field", ""))
            faults.append((field or named, fault["msg"]))
        raise RecordError(faults) from error


def load_catalog(directory: Path = CATALOG_DIR) -> list[ChipRecord]:
    """All records of the directory, by chip id. Raises CatalogError."""
    paths = sorted(directory.glob("*.toml"))
    if not paths:
        raise CatalogError(directory, "", "holds no *.toml file")
    records = [load_record(path) for path in paths]
    _check_parts({record.chip_id: record for record in records}, directory)
    return records


def load_record(path: Path) -> ChipRecord:
    """The record of one file, which must be named after its `chip_id`. Raises CatalogError."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogError(path, "", f"is not TOML: {error}") from error
    try:
        record = read_record(data)
    except RecordError as error:
        raise CatalogError(path, *error.faults[0]) from error
    if record.chip_id != path.stem:
        raise CatalogError(path, "chip_id", f"is {record.chip_id!r}, but the file's name says {path.stem!r}")
    return record


def _check_parts(records: Mapping[str, ChipRecord], directory: Path) -> None:
    for record in records.values():
        for part in record.system.parts if record.system else ():
            if part.chip_id not in records:
                path = directory / f"{record.chip_id}.toml"
                raise CatalogError(path, "system.parts", f"no record of {part.chip_id!r}; allowed: ids of the catalog")
