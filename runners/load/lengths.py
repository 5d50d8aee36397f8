"""How many tokens a prompt or an answer has: one draw from a distribution of the spec."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from runners.spec import FixedLen, LengthSpec, LognormalLen, UniformLen


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
