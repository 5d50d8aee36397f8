"""Rows that are faster than a chip at 100 % efficiency: they can't be what they say, and no fit may follow them.

The floor takes every peak as reached and every overhead as nothing. Where a row does not say how many requests ran at
once, bandwidth gives no floor (a larger batch reads weights less often per token), and arithmetic alone does.
"""

from __future__ import annotations

from dataclasses import dataclass

from runners.modelled.cases import Case
from runners.modelled.work import Splitter

ROUNDING = 1.02


@dataclass(frozen=True, slots=True)
class DataError:
    """A row and by how much it is faster than its chip can be."""

    row_id: str
    times_too_fast: float

    def __str__(self) -> str:
        return f"{self.row_id}: {self.times_too_fast:.2f} times as fast as its chip at 100 % efficiency"


def find_data_error(case: Case) -> DataError | None:
    """The row's error if it beats its floor, with a hair's allowance for rounded specifications."""
    if case.value is None or case.quantity == "energy" or case.layout.prefill is not None:
        return None
    rate = case.quantity in ("rate", "prefill")
    step_s = case.scale / case.value if rate else case.value / case.scale
    times = floor_s(case) / step_s
    return DataError(case.row_id, times) if times > ROUNDING else None


def floor_s(case: Case) -> float:
    """The least seconds that the row's mean step can take, on all chips of one replica together."""
    splitter: Splitter = case.splitter
    shape, pool, load = case.shape, splitter.parallel, case.load
    chips = pool.group * pool.pp
    prompts = case.quantity in ("ttft", "prefill")
    tokens = load.input_tokens if prompts else load.batch * pool.dp
    prefill = 0.0 if prompts or case.mixed_share == 0 else tokens * load.input_tokens / max(load.output_tokens, 1.0)
    flops = 2 * shape.active_weights * (tokens + prefill)
    compute_s = flops / (case.flops_per_s * chips)
    if load.concurrency is None or prompts:
        return compute_s
    touched = shape.experts_touched(tokens) * shape.expert_layers * shape.expert_weights
    weights = shape.dense_weights * min(splitter.dense_bytes_each, splitter.bytes_each) + touched * splitter.bytes_each
    context = load.input_tokens + (load.output_tokens / 2 if load.output_tokens else 0.0)
    cache = tokens * shape.kv_elements_held(int(context)) * min(splitter.kv_bytes, 1.0)
    return max(compute_s, (weights + cache) / (case.chip.bytes_per_s * chips))
