"""The fit of a step: coefficients that make the model's figures those of published results, as near as priors allow.

Least squares on the logarithm of the ratio, with a robust loss, so that a row that is off by a factor pulls little more
than one that is off by a third (scipy's soft L1). Each parameter has a Gaussian prior on its logarithm, which is what
makes the levels hierarchical: a group with few rows stays near the level above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from scipy.sparse import csr_matrix, diags

from runners.modelled.cases import Case
from runners.modelled.coefficients import COEFFICIENTS, Key, Peaks, keys_of, make_speeds
from runners.modelled.work import price, stack

Array = npt.NDArray[np.float64]
Parameters = Mapping[Key, float]

ROW_SPREAD = 0.15
"""Scatter of published results about a perfect model, as a logarithm: what the priors are weighed against."""
PREFILL_WEIGHT = 0.7
MAX_EVALUATIONS = 25
DIFFERENCE = 1e-5


@dataclass(frozen=True)
class Problem:
    """Cases as arrays, and which parameters each coefficient of each case is the product of."""

    cases: Sequence[Case]
    index: Mapping[Key, int]
    spreads: Array
    picks: Mapping[str, csr_matrix]

    @classmethod
    def of(cls, cases: Sequence[Case], known: Parameters | None = None) -> Problem:
        """With `known`, those parameters alone; else all that the cases name."""
        index: dict[Key, int] = {key: place for place, key in enumerate(known)} if known is not None else {}
        spreads: dict[int, float] = {}
        entries: dict[str, list[tuple[int, int]]] = {item.name: [] for item in COEFFICIENTS}
        for row, case in enumerate(cases):
            for key, spread in keys_of(case):
                if known is not None and key not in index:
                    continue
                place = index.setdefault(key, len(index))
                spreads[place] = spread
                entries[key[0]].append((row, place))
        picks = {}
        for name, pairs in entries.items():
            rows, places = zip(*pairs, strict=True) if pairs else ((), ())
            picks[name] = csr_matrix((np.ones(len(pairs)), (rows, places)), shape=(len(cases), len(index)))
        return cls(cases, index, np.array([spreads.get(place, 1.0) for place in range(len(index))]), picks)

    def factors(self, parameters: Array) -> dict[str, Array]:
        """Of each coefficient of each case, the logarithm of the factors of its groups together."""
        return {item.name: np.asarray(self.picks[item.name] @ parameters) for item in COEFFICIENTS}

    @staticmethod
    def values(factors: Mapping[str, Array]) -> dict[str, Array]:
        """Each coefficient of each case: its prior times its factors, at most its bound."""
        return {item.name: np.minimum(item.prior * np.exp(factors[item.name]), item.most) for item in COEFFICIENTS}


class Timer:
    """Times all cases of a problem under given parameters."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        cases = problem.cases
        self._peaks = Peaks(
            np.array([case.chip.bytes_per_s for case in cases]),
            np.array([case.flops_per_s for case in cases]),
            np.array([case.wide_flops_per_s for case in cases]),
            np.array([case.chip.link_bytes_per_s for case in cases]),
        )
        self._decode, self._mixed = stack([c.decode for c in cases]), stack([c.mixed for c in cases])
        self._share = np.array([c.mixed_share for c in cases])

    def step_s(self, parameters: Array) -> Array:
        """Seconds of the mean step of each case."""
        return self._seconds(self._problem.factors(parameters))

    def slopes(self, parameters: Array) -> Array:
        """d ln(step_s) / d parameters, (cases, parameters): by differences over the few coefficients, and from there by
        the chain rule, since a parameter only ever acts through its coefficient."""
        factors = self._problem.factors(parameters)
        here = np.log(self._seconds(factors))
        total = csr_matrix((len(here), len(parameters)))
        for name, factor in factors.items():
            there = np.log(self._seconds({**factors, name: factor + DIFFERENCE}))
            total = total + diags((there - here) / DIFFERENCE) @ self._problem.picks[name]
        return np.asarray(total.toarray())

    def _seconds(self, factors: Mapping[str, Array]) -> Array:
        values = self._problem.values(factors)
        speeds = make_speeds(self._peaks, values)
        decode_s, mixed_s = price(self._decode, speeds).duration_s, price(self._mixed, speeds).duration_s
        return np.asarray(values["scope"] * ((1 - self._share) * decode_s + self._share * mixed_s))


def fit_steps(cases: Sequence[Case]) -> dict[Key, float]:
    """Parameters, as logarithms of factors. Cases with a queue or a power in them are not for this."""
    if not cases:
        return {}
    problem = Problem.of(cases)
    timer = Timer(problem)
    scale = np.log(np.array([case.scale for case in cases]))
    sign = signs_of(cases)
    wanted = np.log(np.array([case.value for case in cases], float))
    weight = np.array([PREFILL_WEIGHT if case.quantity == "ttft" else 1.0 for case in cases]) / ROW_SPREAD

    def distances(parameters: Array) -> Array:
        return np.asarray((scale + sign * np.log(timer.step_s(parameters)) - wanted) * weight)

    def residuals(parameters: Array) -> Array:
        return np.concatenate([soften(distances(parameters)), parameters / problem.spreads])

    def jacobian(parameters: Array) -> Array:
        rows = (softened_slope(distances(parameters)) * weight * sign)[:, None] * timer.slopes(parameters)
        return np.concatenate([rows, np.diag(1 / problem.spreads)])

    start = np.zeros(len(problem.index))
    found = least_squares(
        residuals, start, jac=jacobian, max_nfev=MAX_EVALUATIONS, xtol=1e-4, ftol=1e-4, tr_solver="lsmr"
    )
    return {key: float(found.x[place]) for key, place in problem.index.items()}


def soften(off: Array) -> Array:
    """Residuals whose squares are soft L1: as they are where small, and from about 1 on growing as their roots do."""
    return np.asarray(np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1)))


def softened_slope(off: Array) -> Array:
    """d soften(off) / d off."""
    off = np.where(np.abs(off) < 1e-6, 1e-6, off)
    return np.asarray(off / np.sqrt(1 + off**2) / soften(off))


def signs_of(cases: Sequence[Case]) -> Array:
    """+1 for a figure that grows with the step, -1 for a rate."""
    return np.array([-1.0 if case.quantity in ("rate", "prefill") else 1.0 for case in cases])


def step_figures(cases: Sequence[Case], parameters: Parameters) -> Array:
    """Each case's figure as its mean step gives it, in the row's unit; groups without a parameter fall back to the
    levels above. An energy is per watt of a chip."""
    if not cases:
        return np.zeros(0)
    problem = Problem.of(cases, parameters)
    step_s = Timer(problem).step_s(np.array(list(parameters.values())))
    scale = np.array([case.scale for case in cases])
    return np.asarray(scale * step_s ** signs_of(cases))
