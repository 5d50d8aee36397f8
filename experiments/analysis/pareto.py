"""The Pareto front of throughput against interactivity, and the best trial by one metric. Valid runs only. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.analysis.compare import COMPARED, TrialResult


def pareto_front(trials: Sequence[TrialResult], x: str, y: str) -> list[int]:
    """Ids of the trials that no other beats in both metrics (their medians), in order of `x`.

    Measured, modelled and imported trials form fronts of their own: none can push another kind off.
    """
    fronts: list[tuple[float, int]] = []
    for kind in {_kind(trial) for trial in trials}:
        points = [
            (_signed(trial, x), _signed(trial, y), trial.id)
            for trial in trials
            if _kind(trial) == kind and trial.values(x) and trial.values(y)
        ]
        for px, py, trial_id in points:
            beaten = any((ox >= px and oy >= py) and (ox > px or oy > py) for ox, oy, _ in points)
            if not beaten:
                fronts.append((px, trial_id))
    return [trial_id for _, trial_id in sorted(fronts)]


def best_trial(trials: Sequence[TrialResult], metric: str) -> int | None:
    """Id of the measured trial with the best median of `metric`; None when no valid run has it."""
    ranked = [(_signed(trial, metric), trial.id) for trial in trials if trial.values(metric) and not any(_kind(trial))]
    return max(ranked)[1] if ranked else None


def _kind(trial: TrialResult) -> tuple[bool, bool]:
    return trial.modelled, trial.imported


def _signed(trial: TrialResult, metric: str) -> float:
    """The median, turned so that more is better."""
    median = float(np.median(trial.values(metric)))
    return -median if COMPARED[metric][1] is False else median
