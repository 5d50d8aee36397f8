"""Number formats of weights and KV cache: their bytes, and the rate at which a chip computes in them.

A format without native units on a chip shrinks bytes and not FLOPs: the arithmetic runs at the rate of the next wider
format that the chip has, and each weight is unpacked first. Bits include the scales of the format's blocks (OCP
Microscaling specification 1.0; NVFP4: one FP8 scale per 16 elements; GGUF: ggml's block layouts).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Rate = Callable[[str], float | None]


class FormatError(ValueError):
    """No such number format, or a chip that can't compute in it at all; trying again would change nothing."""

    retry = False


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """`bits` per weight with scales; `computes` are the formats whose units may do the arithmetic, best first;
    `dense_bits` are those of the matrices that usual checkpoints of mixtures leave wider (attention)."""

    name: str
    bits: float
    computes: tuple[str, ...]
    kv_bits: float = 16.0
    dense_bits: float | None = None

    @property
    def narrow(self) -> bool:
        return self.bits < 7

    def rate_of(self, rate: Rate) -> tuple[str, float]:
        """Name and FLOP/s of the units that compute in it. Raises FormatError when the chip has none of them."""
        for name in self.computes:
            flops_per_s = rate(name)
            if flops_per_s is not None:
                return name, flops_per_s
        raise FormatError(f"{self.name}: the chip has no rate; allowed: a chip with one of {', '.join(self.computes)}")

    def is_native(self, rate: Rate) -> bool:
        return self.rate_of(rate)[0] == self.computes[0]


_WIDE = ("bf16", "fp16", "fp32")
FORMATS: dict[str, NumberFormat] = {
    item.name: item
    for item in (
        NumberFormat("bf16", 16.0, _WIDE),
        NumberFormat("fp8", 8.06, ("fp8", *_WIDE, "int8")),
        NumberFormat("int8", 8.06, ("int8", *_WIDE, "fp8")),
        NumberFormat("w8a16", 8.06, _WIDE),
        NumberFormat("mxint8", 8.25, ("int8", *_WIDE, "fp8")),
        NumberFormat("nvfp4", 4.5, ("nvfp4", "fp4", "mxfp4", "fp8", *_WIDE), kv_bits=8.0, dense_bits=16.0),
        NumberFormat("mxfp4", 4.25, ("mxfp4", "fp4", "nvfp4", "fp8", *_WIDE), kv_bits=8.0, dense_bits=16.0),
        NumberFormat("w4a16", 4.25, _WIDE, dense_bits=16.0),
        NumberFormat("q4_0", 4.5, _WIDE),
        NumberFormat("q4_k_m", 4.84, _WIDE),
        NumberFormat("q8_0", 8.5, _WIDE),
        NumberFormat("lns8", 8.0, ("fp8", "int8", *_WIDE)),
    )
}

ENGINE_FORMATS = {"int4": "w4a16"}
"""Formats that an experiment calls by another name."""


def engine_format(weights: str) -> NumberFormat:
    """The format of an experiment's `engine.weights`."""
    return FORMATS[ENGINE_FORMATS.get(weights, weights)]


_SPELLINGS = (
    ("w int8", "w8a16"),
    ("w bf16", "bf16"),
    ("mxint8", "mxint8"),
    ("nvfp4", "nvfp4"),
    ("mxfp4", "mxfp4"),
    ("fp4", "nvfp4"),
    ("q4_k", "q4_k_m"),
    ("q4_0", "q4_0"),
    ("q8_0", "q8_0"),
    ("fp8", "fp8"),
    ("int8", "int8"),
    ("int4", "w4a16"),
    ("awq", "w4a16"),
    ("gptq", "w4a16"),
    ("bf16", "bf16"),
    ("fp16", "bf16"),
    ("f16", "bf16"),
    ("lns", "lns8"),
)


def parse_format(text: str) -> NumberFormat:
    """The format that a published precision names, such as "FP4 (NVFP4/MXFP4)". Raises FormatError."""
    lowered = text.lower()
    for spelling, name in _SPELLINGS:
        if spelling in lowered:
            return FORMATS[name]
    raise FormatError(f"precision: {text!r} is not known; allowed: one that names {', '.join(FORMATS)}")
