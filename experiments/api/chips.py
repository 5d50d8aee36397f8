"""REST for the chip catalog: the current version of each chip, with every figure and its source. Read only; chips are
edited in the admin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from experiments.api.auth import person
from experiments.api.held_list import cut_page
from experiments.api.listing import Text
from experiments.api.paging import PageQuery
from experiments.api.schemas import READ_ERRORS, ChipOut, ChipPage
from hardware.models import Chip
from hardware.selectors import current_chips
from labsite.error_body import ErrorBody
from runners.chips import Format

router = Router(tags=["catalog"])

ChipName = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
Order = Literal[
    "name", "-name", "chip_id", "-chip_id", "vendor", "-vendor", "year", "-year",
    "capacity_bytes", "-capacity_bytes", "bandwidth_bytes_per_s", "-bandwidth_bytes_per_s",
    "bf16", "-bf16", "tdp_w", "-tdp_w", "usd_per_hour", "-usd_per_hour",
]  # fmt: skip


class ChipQuery(PageQuery):
    sort: Order = "name"
    search: Text | None = Field(default=None, description="A part of the name or chip id.")
    vendor: Text | None = None
    kind: Text | None = None
    status: Literal["shipping", "announced", "claimed", "retired"] | None = None
    format: Format | None = Field(default=None, description="Only chips with units of their own for this format.")
    speculative: bool | None = Field(
        default=None, description="Whether a figure that every step needs is not disclosed by its vendor."
    )


def _figure(*keys: str) -> Callable[[Chip], float]:
    """A figure of the stored record to sort by; what is not disclosed comes before the smallest."""

    def read(chip: Chip) -> float:
        value: Any = chip.record
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return float(value) if isinstance(value, int | float) else 0.0

    return read


KEYS: dict[str, Callable[[Chip], Any]] = {
    "name": lambda chip: chip.name,
    "chip_id": lambda chip: chip.chip_id,
    "vendor": lambda chip: chip.vendor,
    "year": _figure("year"),
    "capacity_bytes": _figure("memory", "capacity_bytes"),
    "bandwidth_bytes_per_s": _figure("memory", "bandwidth_bytes_per_s"),
    "bf16": _figure("dense_tflops", "bf16"),
    "tdp_w": _figure("tdp_w"),
    "usd_per_hour": _figure("usd_per_hour"),
}


@router.get("/chips", response={200: ChipPage, READ_ERRORS: ErrorBody}, summary="The chip catalog")
def list_chips(request: HttpRequest, asked: Query[ChipQuery]) -> ChipPage:
    person(request)
    page, following = find_chips(asked)
    return ChipPage(items=[_chip_out(chip) for chip in page], next=following)


@router.get("/chips/{chip_id}", response={200: ChipOut, READ_ERRORS: ErrorBody}, summary="One chip, current version")
def read_chip(request: HttpRequest, chip_id: ChipName) -> ChipOut:
    return _chip_out(current_chips().get(chip_id=chip_id))


def find_chips(asked: ChipQuery) -> tuple[list[Chip], str | None]:
    """A page of the catalog, and the cursor of the next. Raises BadParameter."""
    found = [chip for chip in current_chips().select_related("edited_by") if _is_asked(chip, asked)]
    return cut_page(found, lambda chip: chip.chip_id, KEYS, asked)


def _is_asked(chip: Chip, asked: ChipQuery) -> bool:
    record = chip.record
    if asked.search and asked.search.lower() not in f"{chip.name}\n{chip.chip_id}".lower():
        return False
    if asked.format and not record.get("dense_tflops", {}).get(asked.format):
        return False
    given = (asked.vendor, asked.kind, asked.status, asked.speculative)
    has = (chip.vendor, chip.kind, record.get("status"), bool(record.get("speculative")))
    return all(wanted is None or wanted == value for wanted, value in zip(given, has, strict=True))


def _chip_out(chip: Chip) -> ChipOut:
    return ChipOut(
        chip_id=chip.chip_id,
        version=chip.version,
        name=chip.name,
        vendor=chip.vendor,
        kind=chip.kind,
        origin=chip.origin,
        record=chip.record,
    )
