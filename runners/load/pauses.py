"""How long a session pauses before its next request: one draw from a distribution of the spec, in seconds."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from runners.spec import ExponentialPause, FixedPause, LognormalPause, PauseSpec, UniformPause


def draw_pause_s(spec: PauseSpec, rng: np.random.Generator) -> float:
    match spec:
        case FixedPause():
            return spec.value_s
        case UniformPause():
            return float(rng.uniform(spec.min_s, spec.max_s))
        case ExponentialPause():
            return min(float(rng.exponential(spec.mean_s)), spec.max_s)
        case LognormalPause():
            return min(spec.median_s * float(np.exp(spec.sigma * rng.standard_normal())), spec.max_s)
        case _:
            assert_never(spec)
