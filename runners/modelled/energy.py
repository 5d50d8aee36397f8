"""The shares of a chip's power (power.py), fitted on published joules per token.

The formula is that of a run's steps, for all cases at once; a chip without a stated power has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from runners.modelled.cases import Case
from runners.modelled.fit import Parameters, Problem, Timer
from runners.modelled.power import PRIORS
from runners.modelled.work import Work, stack

Array = npt.NDArray[np.float64]
SPREAD = 0.5
FAMILY_SPREAD = 0.2
ROW_SPREAD = 0.1


def activity(cases: Sequence[Case], parameters: Parameters) -> tuple[Array, Array]:
    """Shares of peak bandwidth and of peak arithmetic that each case's mean step reaches."""
    problem = Problem.of(cases, parameters)
    values = np.array(list(parameters.values()))
    step_s = Timer(problem).step_s(values)
    share = np.array([case.mixed_share for case in cases])
    decode, mixed = stack([case.decode for case in cases]), stack([case.mixed for case in cases])
    moved = (1 - share) * _bytes(decode) + share * _bytes(mixed)
    rate, wide = np.array([c.flops_per_s for c in cases]), np.array([c.wide_flops_per_s for c in cases])
    computed = (1 - share) * _flop_seconds(decode, rate, wide) + share * _flop_seconds(mixed, rate, wide)
    peak = np.array([case.chip.bytes_per_s for case in cases])
    return np.minimum(moved / peak / step_s, 1.0), np.minimum(computed / step_s, 1.0)


def power_w(cases: Sequence[Case], parameters: Parameters, fitted: Mapping[str, float]) -> Array:
    """Watts of one chip during each case's mean step; NaN for a chip whose power is not stated."""
    memory, compute = activity(cases, parameters)
    return _power(cases, memory, compute, fitted)


def _power(cases: Sequence[Case], memory: Array, compute: Array, fitted: Mapping[str, float]) -> Array:
    share = {name: prior * float(np.exp(fitted.get(name, 0.0))) for name, prior in PRIORS.items()}
    tdp = np.array([case.chip.tdp_w or np.nan for case in cases])
    family = np.array([np.exp(fitted.get(f"family={case.chip.family}", 0.0)) for case in cases])
    total = share["idle"] + share["busy"] + share["memory"] * memory + share["compute"] * compute
    return np.asarray(tdp * np.minimum(total * family, 1.0))


def fit_power(cases: Sequence[Case], step_figures: Array, parameters: Parameters) -> dict[str, float]:
    """Logarithms of factors of the shares. `step_figures` are each case's joules per token at one watt per chip."""
    memory, compute = activity(cases, parameters)
    names = [*PRIORS, *sorted({f"family={case.chip.family}" for case in cases})]
    widths = np.array([SPREAD] * len(PRIORS) + [FAMILY_SPREAD] * (len(names) - len(PRIORS)))
    wanted = np.log(np.array([case.value for case in cases], float)) - np.log(step_figures)

    def residuals(values: Array) -> Array:
        off = (np.log(_power(cases, memory, compute, dict(zip(names, values, strict=True)))) - wanted) / ROW_SPREAD
        robust = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1))
        return np.concatenate([robust, values / widths])

    found = least_squares(residuals, np.zeros(len(names)), max_nfev=60)
    return {name: float(value) for name, value in zip(names, found.x, strict=True)}


def _bytes(work: Work) -> Array:
    return np.asarray(work.dense_bytes + work.expert_bytes + work.head_bytes + work.kv_bytes)


def _flop_seconds(work: Work, rate: Array, wide: Array) -> Array:
    """Seconds that the step's arithmetic would take at the chip's peaks."""
    return np.asarray((work.dense_flops + work.expert_flops) / rate + (work.head_flops + work.attention_flops) / wide)
