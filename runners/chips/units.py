"""Which of a chip's units do the arithmetic for weights of a format: its own, or the next wider ones that it has.

A format without units of its own saves bytes and not FLOPs. A 16-bit format never runs on narrower units, as that would
be another model.
"""

from __future__ import annotations

from runners.chips.parts import Format
from runners.chips.record import ChipRecord
from runners.chips.running import NotModellable

WIDE: tuple[Format, ...] = ("bf16", "fp16", "tf32", "fp32")
UNITS: dict[str, tuple[Format, ...]] = {"bf16": WIDE, "int8": ("int8", *WIDE, "mxint8", "fp8")}
ATTENTION: tuple[Format, ...] = (*WIDE, "fp8", "int8", "mxint8")
"""Attention and what else stays wide, on a chip without wide units in what it has."""


def linear_flops(record: ChipRecord, weights: str) -> float:
    """FLOP/s of matrices with weights in that format. Raises NotModellable, naming the rates that would do."""
    found = record.first_flops(*UNITS[weights])
    if found is None:
        has = ", ".join(name for name, rate in record.dense_tflops.items() if rate is not None) or "no rate"
        raise NotModellable(
            record.chip_id, "engine.weights", f"dense_tflops has no units for {weights} weights, only {has}",
            f"a chip with one of {', '.join(UNITS[weights])}",
        )  # fmt: skip
    return found


def attention_flops(record: ChipRecord) -> float | None:
    """FLOP/s of attention; null where no rate is disclosed."""
    return record.first_flops(*ATTENTION)
