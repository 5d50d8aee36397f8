"""The parts of a chip record: memory, links, what a system is made of, what of the peaks is reached, what it costs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runners.chips.figures import (
    Bandwidth,
    Capacity,
    Count,
    Fraction,
    Latency,
    LinkRate,
    Overhead,
    Record,
    Slug,
    Sram,
    Text,
    UsdPerHour,
    Watts,
)

Format = Literal[
    "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "fp4", "mxfp4", "nvfp4",
    "mx9", "mx6", "mxint8", "mxint4",
]  # fmt: skip


class Memory(Record):
    """The main memory that weights and KV cache lie in, and the SRAM beside or in place of it; null: not disclosed.

    `sram_bytes` is the largest level that the chip shares; a chip of SRAM alone has it as its main memory too.
    """

    type: Text
    capacity_bytes: Capacity | None = None
    bandwidth_bytes_per_s: Bandwidth | None = None
    sram_bytes: Sram | None = None
    sram_bandwidth_bytes_per_s: Bandwidth | None = None


class Interconnect(Record):
    """The link that scales a model up: bytes/s of one chip in one direction, chips within its reach, time of a hop."""

    bytes_per_s_per_chip: LinkRate | None = None
    domain_chips: Count | None = None
    latency_s: Latency | None = None


class Part(Record):
    chip_id: Slug
    count: Count


class PartLink(Record):
    """Between the parts of a system: bytes/s in one direction, all links together."""

    bytes_per_s: LinkRate | None = None
    latency_s: Latency | None = None


class System(Record):
    """What a record of several chips is made of. `chips` is null where nobody has said how many.

    Records of one kind of part give sums over all its chips; those of several kinds give no rate, as no step runs on
    the sum of unlike chips.
    """

    chips: Count | None = None
    parts: tuple[Part, ...] = ()
    link: PartLink = PartLink()

    @property
    def is_mixed(self) -> bool:
        return len(self.parts) > 1


class Efficiency(Record):
    """Shares of the peaks that software reaches, to start a calibration from; `per_layer_overhead_s` by engine."""

    memory_fraction: Fraction | None = None
    kv_read_fraction: Fraction | None = None
    link_fraction: Fraction | None = None
    gemm_fraction: dict[Format, Fraction] = Field(default_factory=dict)
    per_layer_overhead_s: dict[str, Overhead] = Field(default_factory=dict)


class Ownership(Record):
    """What a chip-hour costs its owner, and the power it draws with its share of host, network and cooling."""

    usd_per_hour_hyperscaler: UsdPerHour | None = None
    usd_per_hour_neocloud: UsdPerHour | None = None
    all_in_w: Watts | None = None
