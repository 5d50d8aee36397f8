"""Which of a chip's units do the arithmetic for weights of a format: its own, or the next wider ones that it has.

A format without units of its own saves bytes and not FLOPs: each weight is unpacked first. A 16-bit format never runs
on narrower units, as that would be another model; a narrow one does where a chip has no wider units at all, or units of
as many bits. 4-bit integers are weights alone (AWQ, GPTQ): the arithmetic is of 16 bits where there are units for it.
"""

from __future__ import annotations

from runners.chips.parts import Format
from runners.chips.record import ChipRecord
from runners.chips.running import NotModellable

WIDE: tuple[Format, ...] = ("bf16", "fp16", "tf32", "fp32")
UNITS: dict[str, tuple[Format, ...]] = {
    "bf16": WIDE,
    "int8": ("int8", *WIDE, "mxint8", "fp8"),
    "fp8": ("fp8", *WIDE, "int8"),
    "mxint8": ("mxint8", "int8", *WIDE, "fp8"),
    "nvfp4": ("nvfp4", "fp4", "mxfp4", "fp8", *WIDE),
    "mxfp4": ("mxfp4", "fp4", "nvfp4", "fp8", *WIDE),
    "int4": (*WIDE, "fp8", "int8", "mxint8"),
    "lns8": (*WIDE, "fp8", "int8"),
}
OWN: dict[str, tuple[Format, ...]] = {
    "bf16": ("bf16", "fp16"),
    "int8": ("int8",),
    "fp8": ("fp8",),
    "mxint8": ("mxint8", "int8"),
    "nvfp4": ("nvfp4", "fp4"),
    "mxfp4": ("mxfp4", "fp4"),
    "int4": (),
    "lns8": (),
}
"""Units that take weights of a format as they lie."""
ATTENTION: tuple[Format, ...] = (*WIDE, "fp8", "int8", "mxint8")
"""Attention and what else stays wide, on a chip without wide units in what it has."""
LOGARITHMIC = "lns"
"""What a record's `supported_formats` call numbers that are logarithms; no rate of a record is of them."""


def linear_units(record: ChipRecord, weights: str) -> Format:
    """The format of the units that multiply weights of that format. Raises NotModellable, naming the rates that would
    do."""
    for name in UNITS[weights]:
        if record.peak_flops(name) is not None:
            return name
    has = ", ".join(name for name, rate in record.dense_tflops.items() if rate is not None) or "no rate"
    raise NotModellable(
        record.chip_id, "engine.weights", f"dense_tflops has no units for {weights} weights, only {has}",
        f"a chip with one of {', '.join(UNITS[weights])}",
    )  # fmt: skip


def linear_flops(record: ChipRecord, weights: str) -> float:
    """FLOP/s of matrices with weights in that format. Raises NotModellable, naming the rates that would do."""
    found = record.peak_flops(linear_units(record, weights))
    assert found is not None
    return found


def takes_as_they_lie(record: ChipRecord, weights: str) -> bool:
    """Whether the chip multiplies weights of that format without unpacking them first. A chip that computes with
    logarithms gives one rate for its numbers, whatever that is called."""
    if weights == "lns8":
        return any(name.startswith(LOGARITHMIC) for name in record.supported_formats)
    return linear_units(record, weights) in OWN[weights]


def attention_flops(record: ChipRecord) -> float | None:
    """FLOP/s of attention; null where no rate is disclosed."""
    return record.first_flops(*ATTENTION)
