"""The fit: coefficients that make the model's figures those of published results, as near as their priors allow.

Least squares on the logarithm of the ratio, with a robust loss, so that a row that is off by a factor pulls no more
than one that is off by half (scipy's soft L1; Triggs et al. 2000). Each parameter has a Gaussian prior on its
logarithm, which is what makes the levels hierarchical: a group with few rows stays near the level above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse import csr_matrix

from runners.modelled.coefficients import BY_NAME, COEFFICIENTS, Array, hardware_of, keys_of, make_speeds
from runners.modelled.rows import Case
from runners.modelled.work import price, stack

ROW_SPREAD = 0.15
"""Scatter of published results about a perfect model, as a logarithm: what the priors are weighed against."""


@dataclass(frozen=True)
class Problem:
    """Cases as arrays, and which parameters each coefficient of each case is the product of."""

    cases: Sequence[Case]
    index: Mapping[tuple[str, str], int]
    spreads: Array
    picks: Mapping[str, csr_matrix]

    @classmethod
    def of(cls, cases: Sequence[Case], known: Mapping[tuple[str, str], float] | None = None) -> Problem:
        """With `known`, those parameters alone; else all that the cases name."""
        index: dict[tuple[str, str], int] = {key: place for place, key in enumerate(known)} if known else {}
        spreads: dict[int, float] = {}
        entries: dict[str, list[tuple[int, int]]] = {item.name: [] for item in COEFFICIENTS}
        for row, case in enumerate(cases):
            for name, group, spread in keys_of(case):
                if known is not None and (name, group) not in index:
                    continue
                place = index.setdefault((name, group), len(index))
                spreads[place] = spread
                entries[name].append((row, place))
        picks = {}
        for name, pairs in entries.items():
            rows, places = zip(*pairs, strict=True) if pairs else ((), ())
            picks[name] = csr_matrix((np.ones(len(pairs)), (rows, places)), shape=(len(cases), len(index)))
        return cls(cases, index, np.array([spreads.get(place, 1.0) for place in range(len(index))]), picks)

    def values(self, parameters: Array) -> dict[str, Array]:
        """Each coefficient of each case: its prior times the factors of its groups."""
        return {item.name: item.prior * np.exp(self.picks[item.name] @ parameters) for item in COEFFICIENTS}


class Timer:
    """Times all cases of a problem under given parameters."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        cases = problem.cases
        self._hardware = hardware_of(cases)
        self._decode, self._mixed = stack([c.decode for c in cases]), stack([c.mixed for c in cases])
        self._share = np.array([c.mixed_share for c in cases])

    def step_s(self, parameters: Array) -> Array:
        """Seconds of the mean step of each case."""
        values = self.problem.values(parameters)
        speeds = make_speeds(self._hardware, values)
        decode, mixed = price(self._decode, speeds).duration_s, price(self._mixed, speeds).duration_s
        return np.asarray(values["scope"] * ((1 - self._share) * decode + self._share * mixed))


def fit(cases: Sequence[Case], extra: Array | None = None) -> dict[tuple[str, str], float]:
    """Parameters, as logarithms of factors, by (coefficient, group). `extra` are seconds beside the step (waits)."""
    problem = Problem.of(cases)
    timer = Timer(problem)
    scale = np.array([case.scale for case in cases])
    sign = np.array([-1.0 if case.quantity in ("rate", "prefill") else 1.0 for case in cases])
    wanted = np.log(np.array([case.value for case in cases], float))
    weight = np.array([row_weight(case) for case in cases])

    def residuals(parameters: Array) -> Array:
        step = timer.step_s(parameters)
        off = (np.log(scale) + sign * np.log(step) - wanted) / ROW_SPREAD * weight
        robust = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1))
        return np.concatenate([robust, parameters / problem.spreads])

    found = least_squares(residuals, np.zeros(len(problem.index)), method="trf", max_nfev=25, xtol=1e-4, ftol=1e-4)
    return {key: float(found.x[place]) for key, place in problem.index.items()}


def row_weight(case: Case) -> float:
    """Less for a first token, whose figure holds a wait as well."""
    return 0.4 if case.quantity == "ttft" else 1.0


def steps_under(cases: Sequence[Case], parameters: Mapping[tuple[str, str], float]) -> Array:
    """Seconds of each case's mean step; groups without a parameter fall back to the levels above."""
    problem = Problem.of(cases, parameters)
    return Timer(problem).step_s(np.array(list(parameters.values())))


__all__ = ["BY_NAME", "Problem", "Timer", "fit", "steps_under"]
