"""Figures of cases under a calibration: steps, first tokens and energies together, in each row's own unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runners.modelled.calibration_file import Calibration
from runners.modelled.cases import Case
from runners.modelled.coefficients import Key
from runners.modelled.energy import fit_power, power_w
from runners.modelled.first_token import (
    SLOWNESSES,
    Waves,
    first_token_figure,
    fit_first_tokens,
    replay_waves,
    slowness_of,
)
from runners.modelled.fit import fit_steps, step_figures

WavesByRow = Mapping[str, list[Waves]]


def predict_cases(cases: Sequence[Case], calibration: Calibration) -> dict[str, float]:
    """The figure of each case by row id; NaN for an energy of a chip whose power is not stated."""
    queued = [case for case in cases if case.queues]
    energies = [case for case in cases if case.quantity == "energy"]
    others = [case for case in cases if not case.queues and case.quantity != "energy"]
    out = dict(zip([case.row_id for case in others], step_figures(others, calibration.steps), strict=True))
    if energies:
        joules = step_figures(energies, calibration.steps) * power_w(energies, calibration.steps, calibration.power)
        out |= zip([case.row_id for case in energies], joules, strict=True)
    for case in queued:
        fitted = calibration.first_token
        waves = replay_waves(case, calibration.steps, slowness_of(case, fitted))
        out[case.row_id] = first_token_figure(case, waves, fitted)
    return {row_id: float(value) for row_id, value in out.items()}


def run_first_tokens(cases: Sequence[Case], calibration: Calibration) -> dict[str, float]:
    """What a modelled run would give as TTFT of the cases that queue, by row id: its steps that prefill are those that
    throughput was fitted on, and not slower."""
    queued = [case for case in cases if case.queues]
    waves = [replay_waves(case, calibration.steps, 1.0) for case in queued]
    fitted = calibration.first_token
    return {case.row_id: first_token_figure(case, each, fitted) for case, each in zip(queued, waves, strict=True)}


def replay_all(cases: Sequence[Case], steps: Mapping[Key, float]) -> list[list[Waves]]:
    """The waves of each closed loop at every slowness that a fit interpolates between."""
    return [[replay_waves(case, steps, slow) for slow in SLOWNESSES] for case in cases]


def fit_cases(cases: Sequence[Case], waves: WavesByRow | None = None) -> tuple[Calibration, WavesByRow]:
    """Coefficients from cases with values, and the replayed waves of those that queue. `waves` spares replaying them
    again, for a cross-validation."""
    queued = [case for case in cases if case.queues]
    energies = [case for case in cases if case.quantity == "energy"]
    steps = fit_steps([case for case in cases if not case.queues and case.quantity != "energy"])
    power = fit_power(energies, step_figures(energies, steps), steps) if energies else {}
    if waves is None:
        waves = dict(zip([case.row_id for case in queued], replay_all(queued, steps), strict=True))
    first_token = fit_first_tokens(queued, [waves[case.row_id] for case in queued]) if queued else {}
    return Calibration(steps, first_token, power), waves


def log_ratios(cases: Sequence[Case], predicted: Mapping[str, float]) -> dict[str, float]:
    """ln(predicted / measured) of each case that has a prediction."""
    with_both = [case for case in cases if case.value and case.row_id in predicted]
    return {case.row_id: float(np.log(predicted[case.row_id] / (case.value or np.nan))) for case in with_both}
