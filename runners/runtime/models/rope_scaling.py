"""How fast each pair of a rotary embedding turns, in radians per position, under every kind of scaling.

Plain numbers; the table of turns is built in rope.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from runners.runtime.models.config import (
    LinearScaling,
    Llama3Scaling,
    RopeConfig,
    TableScaling,
    YarnScaling,
)


def rope_rates(rope: RopeConfig, head_dim: int, table: Sequence[float] | None = None) -> list[float]:
    """Radians per position of the head_dim / 2 pairs. `table` holds the numbers that TableScaling divides by."""
    rates = [rope.theta ** (-2 * pair / head_dim) for pair in range(head_dim // 2)]
    match rope.scaling:
        case None:
            return rates
        case LinearScaling(factor):
            return [rate / factor for rate in rates]
        case Llama3Scaling() as scaling:
            return [_llama3(rate, scaling) for rate in rates]
        case YarnScaling() as scaling:
            return _yarn(rates, rope.theta, head_dim, scaling)
        case TableScaling(tensor):
            if table is None:
                raise ValueError(f"the numbers of {tensor} are needed")
            return [rate / divisor for rate, divisor in zip(rates, table, strict=True)]


def attention_factor(rope: RopeConfig) -> float:
    """What rotated vectors are stretched by."""
    return rope.scaling.attention_factor if isinstance(rope.scaling, YarnScaling) else 1.0


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
    """0.1 · mscale · ln(factor) + 1, the paper's choice (equation 22); 1 where nothing is stretched."""
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def _llama3(rate: float, scaling: Llama3Scaling) -> float:
    """Kept above high_freq_factor turns in the original context, divided below low_freq_factor, blended between."""
    turns = scaling.original_max_len * rate / (2 * math.pi)
    if turns > scaling.high_freq_factor:
        return rate
    if turns < scaling.low_freq_factor:
        return rate / scaling.factor
    kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    return (1 - kept) * rate / scaling.factor + kept * rate


def _yarn(rates: list[float], theta: float, head_dim: int, scaling: YarnScaling) -> list[float]:
    """Pairs that turn beta_fast times or more in the original context are kept, beta_slow or fewer divided."""

    def pair_with(turns: float) -> float:
        return head_dim * math.log(scaling.original_max_len / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_with(scaling.beta_fast), pair_with(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low or 0.001
    divided = [min(max((pair - low) / width, 0.0), 1.0) for pair in range(len(rates))]
    return [rate / scaling.factor * part + rate * (1 - part) for rate, part in zip(rates, divided, strict=True)]
