"""Chooses the kernels for a chip, by trying on the chip what they promise.

int8 sums must be exact (a chip without VNNI saturates 16-bit halves), or the portable kernels are taken. That a row's
result does not depend on the rows beside it is tried for the linear layers and for attention's products; where it
does not hold, the kernels still run and the run's facts say `batch_invariant: false`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

from runners.runtime.kernels import onednn, portable
from runners.runtime.kernels.interface import KernelSet

Weights = Literal["bf16", "int8"]
Choice = Literal["auto", "torch", "native"]

_ROWS, _OUT, _IN = 49, 192, 1536
_SHARES = (1, 2, 3, 8, 17, 32)


class KernelsUnavailable(RuntimeError):
    """Native kernels were asked for on a chip where they don't give the right numbers."""

    retry = False


def choose_kernels(weights: Weights, choice: Choice = "auto") -> KernelSet:
    """The kernel set for a precision: native where it is right on this chip, else portable (`auto`), or as asked.

    Raises KernelsUnavailable for `native` where it is not right.
    """
    native: KernelSet = onednn.OneDnnInt8() if weights == "int8" else onednn.OneDnnBf16()
    plain: KernelSet = portable.PortableInt8() if weights == "int8" else portable.PortableBf16()
    if choice == "torch":
        return plain
    if _native_is_right(weights):
        return native
    if choice == "native":
        raise KernelsUnavailable(f"kernels: oneDNN's {weights} results are wrong on this chip; allowed: auto, torch")
    return plain


def is_batch_invariant(kernels: KernelSet) -> bool:
    """Whether, with this set on this chip and thread count, a row's result has the same bits in any batch."""
    linear = kernels.linear(_draw(_OUT, _IN) * 0.05)
    rows = _draw(_ROWS, _IN).to(kernels.hidden_dtype)
    return _rows_are_independent(linear, rows) and _attention_is_independent()


def _native_is_right(weights: Weights) -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if weights == "bf16":
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()  # type: ignore[no-any-return]
    weight, rows = _draw(_OUT, _IN), _draw(_ROWS, _IN)
    weight[0], rows[0] = 1.0, 1.0
    return torch.equal(onednn.Int8Linear(weight)(rows), portable.Int8Linear(weight)(rows))


def _attention_is_independent() -> bool:
    """The two products of attention.py: rows apart, and inner dimensions padded with zeros up to a tile."""
    queries, keys, values = _draw(4, _ROWS, 64), _draw(4, 64, 512), _draw(4, 512, 64).to(torch.bfloat16)
    keys[:, :, 128:] = 0.0
    weights = torch.softmax(_draw(4, _ROWS, 512), dim=-1)
    weights[:, :, 128:] = 0.0
    weights = weights.to(torch.bfloat16)
    padded = torch.bmm(weights, values)
    short = torch.bmm(weights[:, :, :128], values[:, :128])
    return (
        torch.equal(padded, short)
        and _rows_are_independent(lambda rows: torch.bmm(rows, keys), queries, dim=1)
        and _rows_are_independent(lambda rows: torch.bmm(rows, values), weights, dim=1)
    )


def _rows_are_independent(compute: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor, dim: int = 0) -> bool:
    whole = compute(rows)
    return all(
        torch.equal(compute(rows.narrow(dim, 0, share).contiguous()), whole.narrow(dim, 0, share)) for share in _SHARES
    )


def _draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))
