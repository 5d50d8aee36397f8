"""One chip, or a system of chips: what it can do at most, each figure with its source.

Rates are the vendor's dense ones (never with sparsity); null means not native, not published or not disclosed. What a
chip reaches in practice is calibration, and not kept here but for the values that a calibration starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.chips.claims import Claim
from runners.chips.figures import Record, Slug, SystemWatts, Teraflops, Text, UsdPerHour, UsdPurchase, Watts
from runners.chips.parts import Efficiency, Format, Interconnect, Memory, Ownership, System
from runners.chips.plausible import find_implausible
from runners.chips.sources import FigureSource, Remark
from runners.chips.speculation import Speculation
from runners.dotted import read

LEAST_TFLOPS = 1.0
"""Of a chip that is no CPU: a lower figure is most likely one in PFLOP/s."""
FIGURE_TABLES = ("dense_tflops", "memory", "interconnect", "efficiency", "ownership")
FIGURES_ALONE = ("tdp_w", "system_w", "usd_per_hour", "usd_purchase")
NO_FIGURES = ("memory.type",)
NEEDED = ("memory.capacity_bytes", "memory.bandwidth_bytes_per_s")


class ChipRecord(Record):
    """Rates in TFLOP/s (TOP/s for integer formats).

    `dense_tflops` and `memory` are of one chip, one card, or the whole system, as `figures_of` says; `interconnect`,
    `tdp_w` and `usd_per_hour` are of one chip (or card) always, `system_w` of the server, rack or system that it works
    in, and `usd_purchase` of what the record is of. `architectures` names what it can run where it can't run all.
    A record is `speculative` when a figure that every step needs is not disclosed.
    """

    chip_id: Slug
    name: Annotated[str, Field(min_length=1, max_length=200)]
    vendor: Annotated[str, Field(min_length=1, max_length=100)]
    kind: Literal["gpu", "tpu", "npu", "lpu", "wafer", "asic", "cpu", "soc", "rack", "other"]
    year: Annotated[int, Field(ge=2000, le=2100)]
    status: Literal["shipping", "announced", "claimed", "retired"]
    tier: Literal["core", "validation", "extra"] = "core"
    figures_of: Literal["chip", "card", "system"] = "chip"
    speculative: bool = False
    architectures: tuple[Literal["transformer"], ...] = ()
    supported_formats: tuple[Text, ...] = ()
    unsupported_formats: tuple[Text, ...] = ()
    dense_tflops: dict[Format, Teraflops | None] = Field(default_factory=dict)
    memory: Memory
    interconnect: Interconnect = Interconnect()
    tdp_w: Watts | None = None
    system_w: SystemWatts | None = None
    usd_per_hour: UsdPerHour | None = None
    usd_purchase: UsdPurchase | None = None
    system: System | None = None
    efficiency: Efficiency = Efficiency()
    ownership: Ownership = Ownership()
    speculation: Speculation | None = None
    results_names: tuple[Text, ...] = ()
    notes: str = ""
    claims: tuple[Claim, ...] = ()
    remarks: tuple[Remark, ...] = ()
    sources: tuple[FigureSource, ...]

    @model_validator(mode="after")
    def every_figure_has_a_source(self) -> Self:
        unsourced = [path for path in self.figures() if self.source_of(path) is None]
        if unsourced:
            raise _fault("sources", "no source for {fields}", fields=", ".join(unsourced))
        return self

    @model_validator(mode="after")
    def every_source_has_a_figure(self) -> Self:
        figures = self.figures()
        fields = [entry.field for entry in self.sources]
        for field in fields:
            if fields.count(field) > 1:
                raise _fault("sources", "two sources for {named}; allowed: one", named=field)
        for entry in self.sources:
            if entry.field != "*" and not any(_covers(entry.field, path) for path in figures):
                raise _fault("sources", "the source for {named} belongs to no figure of this record", named=entry.field)
        return self

    @model_validator(mode="after")
    def rates_are_of_its_kind(self) -> Self:
        for name, tflops in self.dense_tflops.items():
            if tflops is not None and self.kind != "cpu" and tflops < LEAST_TFLOPS:
                raise _fault(
                    f"dense_tflops.{name}",
                    "{value} is not plausible in TFLOP/s for a {kind}; allowed: {least} to 5e+06 TFLOP/s",
                    value=f"{tflops:g}", kind=self.kind, least=f"{LEAST_TFLOPS:g}",
                )  # fmt: skip
        return self

    @model_validator(mode="after")
    def figures_go_together(self) -> Self:
        for found in find_implausible(self):
            raise _fault(found.field, "{message}", message=found.message)
        return self

    @model_validator(mode="after")
    def a_system_says_its_parts(self) -> Self:
        if (self.figures_of == "system") != (self.system is not None):
            given = "absent" if self.system is None else "present"
            text = "{of} figures with system {given}; allowed: a system table where figures_of is system"
            raise _fault("system", text, of=self.figures_of, given=given)
        return self

    @model_validator(mode="after")
    def speculative_means_undisclosed(self) -> Self:
        stands_in = any(entry.confidence == "speculative" for entry in self.sources)
        expected = bool(self.undisclosed()) or stands_in
        if self.speculative != expected:
            why = (
                f"not disclosed: {', '.join(self.undisclosed())}"
                if self.undisclosed()
                else "no needed figure is missing"
            )
            raise _fault("speculative", "{given} is not allowed; allowed: {allowed} ({why})",
                         given=str(self.speculative).lower(), allowed=str(expected).lower(), why=why)  # fmt: skip
        return self

    @model_validator(mode="after")
    def stand_ins_fit_the_record(self) -> Self:
        for path in self.speculation.figures if self.speculation else ():
            if not path.startswith((*(f"{table}." for table in FIGURE_TABLES), "system.link.")) and (
                path not in FIGURES_ALONE
            ):
                raise _fault("speculation.figures", "{path} is no figure of a record", path=path)
        return self

    def figures(self) -> tuple[str, ...]:
        """Dotted paths of all figures that the record states."""
        data = self.model_dump(mode="json", include={*FIGURE_TABLES, *FIGURES_ALONE})
        return tuple(path for path in _leaves(data) if path not in NO_FIGURES)

    def figure(self, path: str) -> float | None:
        """The figure at a dotted path, null where the record states none."""
        value = read(self.model_dump(mode="json", include={path.partition(".")[0]}), path)
        return value if isinstance(value, int | float) else None

    def source_of(self, path: str) -> FigureSource | None:
        """The source of a figure: its own entry, else that of the nearest table that it stands in, else `*`."""
        by_field = {entry.field: entry for entry in self.sources}
        while path:
            if path in by_field:
                return by_field[path]
            path = path.rpartition(".")[0]
        return by_field.get("*")

    def undisclosed(self) -> tuple[str, ...]:
        """Paths of the figures without which no step can be timed and that the record does not state."""
        missing = [path for path in NEEDED if getattr(self.memory, path.partition(".")[2]) is None]
        if not any(self.dense_tflops.values()):
            missing.append("dense_tflops")
        return tuple(missing)

    def peak_flops(self, fmt: Format) -> float | None:
        """Dense peak in FLOP/s of a format that the chip computes natively, else None."""
        tflops = self.dense_tflops.get(fmt)
        return None if tflops is None else tflops * 1e12

    def first_flops(self, *formats: Format) -> float | None:
        """The dense peak of the first of these formats that the chip computes natively."""
        return next((peak for fmt in formats if (peak := self.peak_flops(fmt)) is not None), None)


def _fault(field: str, text: str, **words: str) -> PydanticCustomError:
    return PydanticCustomError("chip_record", text, {"field": field, **words})


def _covers(field: str, path: str) -> bool:
    return path == field or path.startswith(f"{field}.")


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}"
