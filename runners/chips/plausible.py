"""Whether the figures of a record go together: one written in another unit may lie within its own bounds, but not in
those of its ratio to another.

No chip that exists or is announced is near a bound: what computes from DRAM does 26 FLOPs or more for each byte that
it can read, what computes from SRAM 0.75 or more, and none does 10 TFLOP/s for each watt. A factor of a thousand falls
out of each. Nothing here says whether a figure is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # The record asks this module; at run time it needs no more than its attributes.
    from runners.chips.record import ChipRecord

COUNTED = ("bf16", "fp16", "fp8", "int8", "tf32")
LEAST_FLOPS_PER_BYTE = 10.0
LEAST_FLOPS_PER_SRAM_BYTE = 0.1
MOST_TFLOPS_PER_W = 50.0


@dataclass(frozen=True, slots=True)
class Implausible:
    field: str
    message: str


def find_implausible(record: ChipRecord) -> Iterator[Implausible]:
    """Figures that can't be in the unit that they are taken for, given the others."""
    rates = {name: rate for name, rate in record.dense_tflops.items() if rate and name in COUNTED}
    if not rates:
        return
    name = max(rates, key=lambda name: rates[name])
    yield from _against_bandwidth(record, f"dense_tflops.{name}", rates[name])
    yield from _against_power(record, rates[name])


def _against_bandwidth(record: ChipRecord, field: str, tflops: float) -> Iterator[Implausible]:
    bandwidth = record.memory.bandwidth_bytes_per_s
    if bandwidth is None:
        return
    of_sram = bandwidth == record.memory.sram_bandwidth_bytes_per_s
    least = LEAST_FLOPS_PER_SRAM_BYTE if of_sram else LEAST_FLOPS_PER_BYTE
    if tflops * 1e12 / bandwidth < least:
        least_tflops = least * bandwidth / 1e12
        message = f"{tflops:g} is not plausible in TFLOP/s beside {bandwidth:g} bytes/s of memory"
        yield Implausible(field, f"{message}; allowed: at least {least_tflops:g} TFLOP/s")


def _against_power(record: ChipRecord, tflops: float) -> Iterator[Implausible]:
    chips = (record.system.chips or 1) if record.system else 1
    for field, watts, rate in (("tdp_w", record.tdp_w, tflops / chips), ("system_w", record.system_w, tflops)):
        if watts is not None and rate / watts > MOST_TFLOPS_PER_W:
            message = f"{watts:g} is not plausible in W beside {rate:g} TFLOP/s"
            yield Implausible(field, f"{message}; allowed: at least {rate / MOST_TFLOPS_PER_W:g} W")
