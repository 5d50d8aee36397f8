"""A machine that the lab itself has measured, as a chip of the cost model: its ceilings, and steps that it took.

    chip_of(ceilings, facts)          the machine as a chip record: what its agent measured, no vendor's figure
    fit_local(chip, runs)             the built-in engine's coefficients on it, from steps of earlier runs
    local_tuning(chip, weights, fit)  a tuning for CostModel; without a fit, the built-in profile as described

Nothing here measures, and nothing here knows a published result.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError
from scipy.optimize import least_squares

from runners.chips import ChipRecord, attention_flops, linear_flops
from runners.modelled.bands import error_of_ratios
from runners.modelled.calibration_file import ScopeError
from runners.modelled.coefficients import BY_NAME, Peaks, make_speeds
from runners.modelled.fit import soften
from runners.modelled.local_steps import MeasuredSteps, StepKind, kinds_of
from runners.modelled.profiles import overrides_of
from runners.modelled.tuning import Tuning, link_peaks
from runners.modelled.work import price, stack

CHIP_ID = "local-node"
PROFILE = "built-in"
MATMULS = ("fp32", "bf16", "int8")
SPREADS = {
    "memory": 0.5, "kv": 1.0, "gemm": 0.5, "attention": 1.0, "step_s": 1.0, "layer_s": 1.0, "sequence_s": 2.0,
    "token_s": 2.0,
}  # fmt: skip
"""What steps may move, and how far as a logarithm before that counts: a CPU's overheads are nobody's prior."""
OF_FORMAT = {"memory": 0.5, "gemm": 0.5}
"""Efficiencies that differ by the weights' format too, as other kernels compute them."""
STEP_SPREAD = 0.05
MOST_WEIGHT = 16
"""Steps of one kind past so many tell no more than so many do."""
Array = npt.NDArray[np.float64]


class LocalChipError(ValueError):
    """What was measured of the machine is not enough to model it; trying again would change nothing."""

    retry = False


@dataclass(frozen=True)
class LocalFit:
    """Coefficients by weights' format ("": those that all formats share), and how far off steps are that were left out
    of the fit."""

    values: Mapping[str, Mapping[str, float]]
    steps: int
    runs: int
    error: ScopeError


def chip_of(ceilings: Mapping[str, Any], facts: Mapping[str, Any], chip_id: str = CHIP_ID) -> ChipRecord:
    """The machine as a chip, from what its agent found (`python -m runners.agent.ceilings`, `… .detect`).

    Rates are the best ones measured. Raises LocalChipError that names what is missing, or of another chip.
    """
    if ceilings.get("chip") != facts.get("chip"):
        raise LocalChipError(
            f"ceilings: were measured on {ceilings.get('chip')!r}, and the node's chip is {facts.get('chip')!r}; "
            "allowed: ceilings of the chip that runs"
        )
    rates = _best_rates(ceilings, "matmul", "by_precision")
    bandwidths = _best_rates(ceilings, "memory_bandwidth", "by_threads")
    usable_bytes = _table(facts, "memory").get("usable_bytes")
    if not {"fp32", "bf16"} & rates.keys():
        raise LocalChipError("ceilings.matmul.by_precision: has neither fp32 nor bf16; allowed: at least one of them")
    if not bandwidths:
        raise LocalChipError("ceilings.memory_bandwidth.by_threads: is empty; allowed: bytes/s by threads")
    if not usable_bytes:
        raise LocalChipError("facts.memory.usable_bytes: is missing; allowed: bytes of memory that a run may use")
    record = {
        "chip_id": chip_id, "name": str(facts["chip"]), "vendor": _table(facts, "cpu").get("vendor") or "unknown",
        "kind": "cpu", "year": time.gmtime(ceilings.get("measured_at") or time.time()).tm_year, "status": "shipping",
        "dense_tflops": {name: rates[name] / 1e12 for name in MATMULS if name in rates},
        "memory": {"type": "main memory", "capacity_bytes": int(usable_bytes),
                   "bandwidth_bytes_per_s": max(bandwidths.values())},
        "notes": "The year is that of its measurement.",
        "sources": [{"field": "*", "source": "measured on the machine by its agent", "confidence": "high"}],
    }  # fmt: skip
    try:
        return ChipRecord.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise LocalChipError(f"ceilings make no chip: {where}: {first['msg']}") from error


def _table(data: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        found = data.get(key)
        data = found if isinstance(found, Mapping) else {}
    return data


def _best_rates(ceilings: Mapping[str, Any], *path: str) -> dict[str, float]:
    rates = {name: rate.get("best") for name, rate in _table(ceilings, *path).items() if isinstance(rate, Mapping)}
    return {name: float(best) for name, best in rates.items() if isinstance(best, int | float)}


def fit_local(chip: ChipRecord, runs: Sequence[MeasuredSteps]) -> LocalFit:
    """Coefficients from the steps of runs on that chip. Raises LocalChipError where no run has a step."""
    by_run = [kinds for run in runs if (kinds := list(kinds_of(run)))]
    if not by_run:
        raise LocalChipError("steps: there are none; allowed: at least one run with steps")
    every = [kind for kinds in by_run for kind in kinds]
    off = [(kinds, _unseen_ratios(chip, number, by_run)) for number, kinds in enumerate(by_run)]
    return LocalFit(_fit(chip, every), sum(kind.n for kind in every), len(by_run), _error_of(off))


def _unseen_ratios(chip: ChipRecord, number: int, by_run: Sequence[Sequence[StepKind]]) -> Array:
    """How far off one run's kinds are under a fit without that run; where no other run was in its format, under one
    without the half of its kinds that a kind is in."""
    kinds = by_run[number]
    others = [kind for place, other in enumerate(by_run) if place != number for kind in other]
    if any(kind.weights == kinds[0].weights for kind in others) or len(kinds) < 2:
        return _log_ratios(chip, kinds, _fit(chip, others or kinds))
    ratios = np.zeros(len(kinds))
    for half in (0, 1):
        ratios[half::2] = _log_ratios(chip, kinds[half::2], _fit(chip, [*others, *kinds[1 - half :: 2]]))
    return ratios


def local_tuning(chip: ChipRecord, weights: str, fit: LocalFit | None = None) -> Tuning:
    """The tuning of a measured chip for `CostModel(chip, shape, weights)`; put it into `CostModel.tuning`. A format
    that no run was in has the coefficients that all formats share."""
    peaks = peaks_of(chip, weights)
    if fit is None:
        return Tuning(make_speeds(peaks, starting_values()), 1.0, PROFILE, "local", weights, "uncalibrated",
                      "the machine's ceilings; the engine as described")  # fmt: skip
    values = fit.values.get(weights) or fit.values[""]
    errors = dict.fromkeys(("rate", "latency", "ttft"), dataclasses.asdict(fit.error))
    return Tuning(make_speeds(peaks, values), 1.0, PROFILE, "local", weights, "calibrated",
                  f"{fit.steps:,} steps of {fit.runs} run(s) on this machine", errors)  # fmt: skip


def starting_values() -> dict[str, float]:
    """Of the built-in engine, before anything is fitted."""
    return {name: item.prior for name, item in BY_NAME.items()} | dict(overrides_of(PROFILE))


def peaks_of(chip: ChipRecord, weights: str) -> Peaks:
    """Of a chip whose record states what a step needs."""
    bandwidth, wide = chip.memory.bandwidth_bytes_per_s, attention_flops(chip)
    assert bandwidth is not None and wide is not None
    return Peaks(bandwidth, linear_flops(chip, weights), wide, link_peaks(chip)[0])


def _fit(chip: ChipRecord, kinds: Sequence[StepKind]) -> dict[str, dict[str, float]]:
    """Least squares of logarithms, robust, with priors. "" has what all formats share."""
    formats = sorted({kind.weights for kind in kinds})
    stacked, wanted = stack([kind.work for kind in kinds]), np.log([kind.cycle_s for kind in kinds])
    weight = np.sqrt([min(kind.n, MOST_WEIGHT) / MOST_WEIGHT for kind in kinds]) / STEP_SPREAD
    of_kind = np.array([formats.index(kind.weights) for kind in kinds])
    names = [*SPREADS, *(f"{name}|{fmt}" for fmt in formats for name in OF_FORMAT)]
    spreads = np.array([*SPREADS.values(), *(spread for _ in formats for spread in OF_FORMAT.values())])
    by_format = [peaks_of(chip, fmt) for fmt in formats]
    peaks = Peaks(*(np.array([getattr(one, item.name) for one in by_format])[of_kind]
                    for item in dataclasses.fields(Peaks)))  # fmt: skip

    def values(parameters: Array) -> dict[str, Array]:
        factors = dict(zip(names, np.exp(parameters), strict=True))
        found = {name: value * factors.get(name, 1.0) * np.ones(len(formats))
                 for name, value in starting_values().items()}  # fmt: skip
        for name in OF_FORMAT:
            found[name] = found[name] * np.array([factors[f"{name}|{fmt}"] for fmt in formats])
        return found

    def residuals(parameters: Array) -> Array:
        of_each = {name: value[of_kind] for name, value in values(parameters).items()}
        off = (np.log(price(stacked, make_speeds(peaks, of_each)).duration_s) - wanted) * weight
        return np.concatenate([soften(off), parameters / spreads])

    found = least_squares(residuals, np.zeros(len(names)), max_nfev=60)
    shared = dict(zip(names, np.exp(found.x), strict=True))
    fitted = values(found.x)
    out = {fmt: {name: float(value[place]) for name, value in fitted.items()} for place, fmt in enumerate(formats)}
    return out | {"": {name: value * float(shared.get(name, 1.0)) for name, value in starting_values().items()}}


def _log_ratios(chip: ChipRecord, kinds: Sequence[StepKind], values: Mapping[str, Mapping[str, float]]) -> Array:
    """ln(modelled / measured) of each kind."""
    return np.array([
        np.log(price(kind.work, make_speeds(peaks_of(chip, kind.weights), values.get(kind.weights) or values[""]))
               .duration_s / kind.cycle_s)
        for kind in kinds
    ])  # fmt: skip


def _error_of(off: Sequence[tuple[Sequence[StepKind], Array]]) -> ScopeError:
    """Each step counts as its kind is off."""
    ratios = np.concatenate([np.repeat(found, [kind.n for kind in kinds]) for kinds, found in off])
    return error_of_ratios("steps: this machine", ratios)
