"""Chooses the linear layers' kernels for a chip, by trying on the chip what they promise.

int8 sums must be exact (a chip without VNNI saturates 16-bit halves), or the portable kernels are taken. That a row's
result does not depend on the rows beside it is tried too: for int8 it follows from the exact sums; where it does not
hold for bf16, the kernels still run and the run's facts say `batch_invariant: false`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch

from runners.runtime.kernels import onednn, portable
from runners.runtime.kernels.emulated import EmulatedInt4
from runners.runtime.kernels.interface import KernelSet, RowFunction

Weights = Literal["bf16", "int8", "int4"]
Choice = Literal["auto", "torch", "native"]

_ROWS, _OUT, _IN = 49, 192, 1536

_SIZES = (1, 2, 3, 4, 7, 8, 16, 17, 32, 33, 64, 100, 128, 256)
_MOST_ROWS, _LEAST_ROWS = 300, 34
_MULTIPLY_ADDS = 1.5e9
"""For the call with the most rows: a large model tries fewer."""
_RESULTS = 40_000


class KernelsUnavailable(RuntimeError):
    """Native kernels were asked for on a chip where they don't give the right numbers."""

    retry = False


def choose_kernels(weights: Weights, choice: Choice = "auto") -> KernelSet:
    """The kernel set for a precision: native where it is right on this chip, else portable (`auto`), or as asked;
    for int4, which has none, one that computes its numbers in bf16.

    Raises KernelsUnavailable for `native` where it is not right.
    """
    if weights == "int4":
        return EmulatedInt4(choose_kernels("bf16", choice))
    native: KernelSet = onednn.OneDnnInt8() if weights == "int8" else onednn.OneDnnBf16()
    plain: KernelSet = portable.PortableInt8() if weights == "int8" else portable.PortableBf16()
    if choice == "torch":
        return plain
    if _native_is_right(weights):
        return native
    if choice == "native":
        raise KernelsUnavailable(f"kernels: oneDNN's {weights} results are wrong on this chip; allowed: auto, torch")
    return plain


def is_batch_invariant(functions: Iterable[RowFunction], dtype: torch.dtype) -> bool:
    """Whether, on this chip with the present threads, a row's result has the same bits in any batch."""
    return all(_rows_are_independent(function, dtype) for function in functions)


def _rows_are_independent(function: RowFunction, dtype: torch.dtype) -> bool:
    """Compares so many results for each size of batch that a rounding that differs once in thousands is found."""
    count = min(max(int(_MULTIPLY_ADDS / function.multiply_adds), _LEAST_ROWS), _MOST_ROWS)
    rows = _draw(count, function.in_features).to(dtype)
    whole = function.compute(rows)
    tried = max(_RESULTS // whole.shape[1], 1)
    return all(
        torch.equal(function.compute(rows[start : start + size]), whole[start : start + size])
        for size in _SIZES
        for start in range(0, min(tried, count - size + 1), size)
    )


def _native_is_right(weights: Weights) -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if weights == "bf16":
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()  # type: ignore[no-any-return]
    weight, rows = _draw(_OUT, _IN), _draw(_ROWS, _IN)
    weight[0], weight[1], rows[0] = 1.0, -1.0, 1.0  # the largest sums, of either sign
    native, plain = onednn.Int8Linear(weight), portable.Int8Linear(weight)
    return all(torch.equal(native(rows[:count]), plain(rows[:count])) for count in (1, 4, _ROWS))


def _draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))
