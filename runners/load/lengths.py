"""How many tokens a prompt or an answer has, how many turns a session, how much thinking: one draw each."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from runners.spec import (
    CountSpec,
    FixedCount,
    FixedLen,
    LengthSpec,
    LognormalFactor,
    LognormalLen,
    ThinkingSpec,
    UniformFactor,
    UniformLen,
)


def draw_length(spec: LengthSpec, rng: np.random.Generator) -> int:
    """Tokens, at least 1. Uniform includes both ends; lognormal is rounded, then clipped to [1, max_tokens]."""
    match spec:
        case FixedLen():
            return spec.tokens
        case UniformLen():
            return int(rng.integers(spec.min_tokens, spec.max_tokens, endpoint=True))
        case LognormalLen():
            drawn = spec.median_tokens * float(np.exp(spec.sigma * rng.standard_normal()))
            return int(min(max(round(drawn), 1), spec.max_tokens))
        case _:
            assert_never(spec)


def draw_count(spec: CountSpec, rng: np.random.Generator) -> int:
    """At least 1; both ends are included."""
    if isinstance(spec, FixedCount):
        return spec.count
    return int(rng.integers(spec.min_count, spec.max_count, endpoint=True))


def draw_thinking(spec: ThinkingSpec, answer_tokens: int, rng: np.random.Generator) -> int:
    """Tokens of thinking before an answer of so many; perhaps 0."""
    match spec.factor:
        case UniformFactor():
            factor = float(rng.uniform(spec.factor.min_factor, spec.factor.max_factor))
        case LognormalFactor():
            drawn = spec.factor.median_factor * float(np.exp(spec.factor.sigma * rng.standard_normal()))
            factor = min(drawn, spec.factor.max_factor)
        case float():
            factor = spec.factor
        case _:
            assert_never(spec.factor)
    return round(answer_tokens * factor * spec.effort)
