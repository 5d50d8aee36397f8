"""Cut an operation into calls whose result can't depend on how many rows share the batch.

Torch's vectorised loops end in a scalar tail that may round differently (exp, complex products), and with several
threads a tail falls wherever a thread's share ends. Inside one of these blocks a share always ends with a row, so
tails lie at the same elements of every row, however many rows there are. A bf16 product of one row takes a kernel of
its own, which splits long sums; two rows cost the same and don't.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

_GRAIN = 32768
"""Below this many elements torch runs an element-wise operation on one thread (at::internal::GRAIN_SIZE)."""


def row_blocks(num_rows: int, row_elements: int) -> Iterator[slice]:
    """Slices over all rows: each is small enough for one thread, or gives every thread the same number of rows."""
    single = max((_GRAIN - 1) // row_elements, 1)
    if num_rows <= single:
        yield slice(0, num_rows)
        return
    full = torch.get_num_threads() * -(-_GRAIN // row_elements)
    start = 0
    while start < num_rows:
        size = full if num_rows - start >= full else min(single, num_rows - start)
        yield slice(start, start + size)
        start += size


def paired(x: torch.Tensor) -> torch.Tensor:
    """x itself, or its only row twice."""
    return x.expand(2, -1).contiguous() if x.shape[0] == 1 else x
