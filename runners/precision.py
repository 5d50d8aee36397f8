"""Bytes of weights and of the KV cache in each precision that an experiment can ask for.

Those of bf16 and int8 are the built-in runtime's own. The others include the scales of their blocks (OCP Microscaling
specification 1.0; NVFP4: one FP8 scale per 16 elements; 4-bit integers: a 16-bit scale and a zero per group of 128).
"""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_WEIGHT: dict[str, float] = {
    "bf16": 2,
    "int8": 1,
    "fp8": 8.06 / 8,
    "mxint8": 8.25 / 8,
    "nvfp4": 4.5 / 8,
    "mxfp4": 4.25 / 8,
    "int4": 4.25 / 8,
    "lns8": 1,
}
BYTES_PER_KV = {"bf16": 2, "fp8": 1}
WIDE_BYTES = 2
NARROW = ("nvfp4", "mxfp4", "int4")


@dataclass(frozen=True, slots=True)
class WeightWidths:
    """Bytes per weight of what every token goes through, of the experts of a mixture, and of the output head."""

    dense: float
    routed: float
    head: float


def weight_widths(weights: str, mixture: bool) -> WeightWidths:
    """Usual checkpoints of 4-bit mixtures keep attention 16 bits wide, and all but the runtime's own keep the head so.
    Raises KeyError for a precision that is not known."""
    width = BYTES_PER_WEIGHT[weights]
    dense = WIDE_BYTES if mixture and weights in NARROW else width
    return WeightWidths(dense, width, width if weights in ("bf16", "int8") else WIDE_BYTES)
