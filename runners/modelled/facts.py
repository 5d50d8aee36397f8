"""What the cost model takes of a chip record: rates, memory, link, power, and the family that its coefficients go by.

A family is a generation of one vendor's design whose kernels behave alike; a chip that no result was published for is
modelled by its family's coefficients, and one of an unknown family by those of all chips.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from runners.chips import ChipRecord, load_catalog
from runners.chips.figures import Bounds

FAMILIES = (
    ("ampere", r"a100|rtx-30|a40|a10"),
    ("ada", r"l40|rtx-40|rtx-6000-ada|^l4$"),
    ("hopper", r"h100|h200|gh200|h20"),
    ("blackwell-workstation", r"rtx-50|rtx-pro|dgx-spark"),
    ("blackwell", r"b200|b300|gb200|gb300|rubin|vr-nvl|vr200"),
    ("cdna", r"^mi\d"),
    ("neuron", r"trainium|inferentia"),
    ("tpu", r"^tpu"),
    ("apple", r"^apple"),
    ("arc", r"^arc"),
    ("xeon", r"xeon"),
    ("arm-cpu", r"ampereone|graviton|grace-cpu"),
    ("sram", r"groq|wse|lpu|corsair"),
)


class ChipFactsError(ValueError):
    """A chip that can't be modelled, or is not known; trying again would change nothing."""

    retry = False


@dataclass(frozen=True, slots=True)
class ChipFacts:
    """Rates in FLOP/s by format, bytes, bytes/s (link: one direction of one chip), seconds, watts; null: not known."""

    chip_id: str
    family: str
    rates: Mapping[str, float]
    capacity_bytes: float
    bytes_per_s: float
    link_bytes_per_s: float
    link_latency_s: float
    tdp_w: float | None

    def rate(self, name: str) -> float | None:
        return self.rates.get(name)


IN_A_FILE = (
    ("memory", "capacity_GB", Bounds(0.1, 2e5, "GB")),
    ("memory", "bandwidth_TBps", Bounds(1e-3, 1e5, "TB/s")),
    ("interconnect", "scale_up_GBps_per_chip", Bounds(1, 1e5, "GB/s")),
    ("interconnect", "latency_us", Bounds(0.01, 1000, "microseconds")),
)
"""What the figures of a chips file may be, in its own units."""

DEFAULT_LINK_BYTES_PER_S = 25e9
DEFAULT_LINK_LATENCY_S = 10e-6


def family_of(chip_id: str) -> str:
    return next((family for family, pattern in FAMILIES if re.search(pattern, chip_id)), "other")


def facts_of(record: ChipRecord) -> ChipFacts:
    """The facts of one chip of a catalog record. A chip without a stated link is one that talks over PCIe.

    Raises ChipFactsError for a record that lacks a figure that every step needs, or is of unlike chips.
    """
    missing = record.undisclosed()
    if missing:
        raise ChipFactsError(f"{record.chip_id}: its record states no {', '.join(missing)}")
    chips = (record.system.chips or 1) if record.system else 1
    link = record.interconnect
    return ChipFacts(
        chip_id=record.chip_id,
        family=family_of(record.chip_id),
        rates={name: rate * 1e12 / chips for name, rate in record.dense_tflops.items() if rate},
        capacity_bytes=float(record.memory.capacity_bytes or 0) / chips,
        bytes_per_s=float(record.memory.bandwidth_bytes_per_s or 0) / chips,
        link_bytes_per_s=float(link.bytes_per_s_per_chip or DEFAULT_LINK_BYTES_PER_S),
        link_latency_s=float(link.latency_s or DEFAULT_LINK_LATENCY_S),
        tdp_w=record.tdp_w,
    )


def _facts_or_why_not(record: ChipRecord) -> ChipFacts | str:
    try:
        return facts_of(record)
    except ChipFactsError as error:
        return str(error)


def facts_from_json(item: Mapping[str, Any]) -> ChipFacts | str:
    """The facts of one record of a chips file (dense_tflops, memory in GB and TB/s, interconnect in GB/s and µs), or
    why it can't be modelled. Raises ChipFactsError for a figure in another unit."""
    rates = {name: float(rate) * 1e12 for name, rate in (item["dense_tflops"] or {}).items() if rate}
    if item.get("fp32_tflops"):
        rates.setdefault("fp32", float(item["fp32_tflops"]) * 1e12)
    memory, link = item["memory"], item["interconnect"]
    _check_units(item)
    if not memory.get("bandwidth_TBps") or not memory.get("capacity_GB"):
        return f"{item['id']}: its record states no memory bandwidth or capacity"
    if not rates:
        return f"{item['id']}: its record states no rate of any format"
    return ChipFacts(
        chip_id=item["id"],
        family=family_of(item["id"]),
        rates=rates,
        capacity_bytes=memory["capacity_GB"] * 1e9,
        bytes_per_s=memory["bandwidth_TBps"] * 1e12,
        link_bytes_per_s=(link.get("scale_up_GBps_per_chip") or DEFAULT_LINK_BYTES_PER_S / 1e9) * 1e9,
        link_latency_s=(link.get("latency_us") or DEFAULT_LINK_LATENCY_S * 1e6) * 1e-6,
        tdp_w=item.get("tdp_W"),
    )


def _check_units(item: Mapping[str, Any]) -> None:
    for table, name, bounds in IN_A_FILE:
        value = item[table].get(name)
        try:
            bounds.check(value or bounds.low)
        except PydanticCustomError as error:
            raise ChipFactsError(f"{item['id']}: {table}.{name}: {error.message()}") from error


class ChipTable:
    """Chips by id, from the project's catalog or a file; one that can't be modelled is kept with its reason."""

    def __init__(self, chips: Mapping[str, ChipFacts | str]) -> None:
        self._chips = chips

    @classmethod
    def load(cls, source: str) -> ChipTable:
        """`source` is "catalog", or the path of a JSON list of chip records. Raises ChipFactsError for a figure in
        another unit."""
        if source == "catalog":
            return cls({record.chip_id: _facts_or_why_not(record) for record in load_catalog()})
        return cls({item["id"]: facts_from_json(item) for item in json.loads(Path(source).read_text(encoding="utf-8"))})

    def get(self, chip_id: str) -> ChipFacts:
        """Raises ChipFactsError for an unknown chip, or one whose record lacks a figure that every step needs."""
        found = self._chips.get(chip_id)
        if found is None:
            raise ChipFactsError(f"chip_id: {chip_id!r} is not in the catalog; allowed: {len(self._chips)} known ids")
        if isinstance(found, str):
            raise ChipFactsError(found)
        return found
