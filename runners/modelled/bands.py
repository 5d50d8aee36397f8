"""How far predictions are off by scope, and bands that hold for chips, models and precisions that no fit has seen.

Errors are those of a cross-validation that leaves whole families out. A band's bounds are order statistics of them,
one step wider than the plain quantile, since the next row is not among them (Papadopoulos et al. 2002, "Inductive
confidence machines for regression"). Rows of one family err together, so that a scope of few families promises too
much: a band is that of a scope with enough rows (calibration_file.py), and how often it holds is counted here, on
families that neither the fit nor the band had seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor

import numpy as np
import numpy.typing as npt

from runners.modelled.calibration_file import Calibration, Coverage, ScopeError, scopes_of
from runners.modelled.residuals import Residual

OUTSIDE = 0.05
"""Share of rows that may lie below a band, and above it."""
Array = npt.NDArray[np.float64]


def fold_of(group: str, folds: int, seed: int = 0) -> int:
    """Which fold a chip x model x precision is in: by a hash of its name, so that its rows always fall together."""
    return int(hashlib.sha256(f"{group}{seed or ''}".encode()).hexdigest(), 16) % folds


def errors_by_scope(residuals: Sequence[Residual]) -> dict[str, ScopeError]:
    """The errors of every scope that any row is in."""
    grouped: dict[str, list[float]] = {}
    for item in residuals:
        for scope in scopes_of(item.quantity, item.engine, item.family, item.precision):
            grouped.setdefault(scope, []).append(item.ratio)
    return {scope: error_of_ratios(scope, np.array(grouped[scope])) for scope in sorted(grouped)}


def error_of_ratios(scope: str, ratios: Array) -> ScopeError:
    """Of ln(predicted / measured), at least one."""
    off = np.abs(np.exp(ratios) - 1)
    n, measured = len(ratios), np.sort(-ratios)
    low = measured[max(floor((n + 1) * OUTSIDE) - 1, 0)]
    high = measured[min(ceil((n + 1) * (1 - OUTSIDE)) - 1, n - 1)]
    figures = (np.median(off), np.quantile(off, 0.9), np.median(ratios), low, high)
    return ScopeError(scope, n, *(round(float(value), 4) for value in figures))


def coverage_by_quantity(residuals: Sequence[Residual], folds: int, seed: int = 0) -> dict[str, Coverage]:
    """How often bands hold, by quantity and of "all": each fold's rows in bands made from the other folds' errors."""
    held: dict[str, list[bool]] = {}
    fold_by_group = {item.group: fold_of(item.group, folds, seed) for item in residuals}
    for fold in range(folds):
        others = [item for item in residuals if fold_by_group[item.group] != fold]
        calibration = Calibration({}, {}, {}, errors_by_scope(others))
        for item in residuals:
            if fold_by_group[item.group] == fold:
                # A run's first token stands for the same rows as the formula's, which are counted once.
                for name in (item.quantity, *(() if item.quantity == "run_ttft" else ("all",))):
                    held.setdefault(name, []).append(is_inside(item, calibration))
    return {name: Coverage(len(found), round(sum(found) / len(found), 4)) for name, found in sorted(held.items())}


def is_inside(item: Residual, calibration: Calibration) -> bool:
    """Whether a row lies within its band; one that has none does not."""
    error = calibration.error_of(item.quantity, item.engine, item.family, item.precision)
    return error is not None and error.low <= -item.ratio <= error.high


def format_coverage(coverage: Mapping[str, Coverage]) -> Iterator[str]:
    for name, found in coverage.items():
        yield f"band holds, {name:<10}{found.n:>6} rows{found.share:>9.1%}"
