"""The cost model's prediction of a measured run beside what was measured, as pages, API and exports show it. Reads.

A residual is measured / predicted - 1, reckoned here, so that it follows the figures whenever they are computed again.
Every form says that the prediction is modelled, and either its error or that nobody knows it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.utils import timezone

from experiments.models import Run, RunState

LOOKED_BACK = dt.timedelta(days=7)
"""Older runs without a prediction were there before there were predictions, and get none."""
PREDICTED = ("output_throughput", "tpot", "ttft")


@dataclass(frozen=True)
class Beside:
    """One figure: `low` and `high` bound 90 % of what is measured, null where the model's error is not known. They come
    from the residuals of `runs` earlier predictions, or where that is null, from steps left out of the fit."""

    unit: str
    predicted: float
    low: float | None
    high: float | None
    measured: float | None
    residual: float | None
    runs: int | None = None

    @property
    def within(self) -> bool | None:
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


@dataclass(frozen=True)
class PredictedRun:
    """`state` is calibrated or uncalibrated; null with `why_not`, which says why there is no prediction."""

    state: str | None
    basis: str
    why_not: str | None
    metrics: Mapping[str, Beside]

    def as_json(self) -> dict[str, Any]:
        return {
            "modelled": True,
            "state": self.state,
            "basis": self.basis,
            "why_not": self.why_not,
            "metrics": {name: asdict(beside) for name, beside in self.metrics.items()},
        }


def prediction_of(run: Run) -> PredictedRun | None:
    """None where the run has none, or not yet."""
    if run.prediction is None:
        return None
    return read_prediction(run.prediction, (run.summary or {}).get("metrics") or {})


def read_prediction(stored: Mapping[str, Any], measured: Mapping[str, Any]) -> PredictedRun:
    """The stored prediction beside the metrics of a summary."""
    figures = stored.get("metrics") or {}
    return PredictedRun(
        stored.get("state"),
        stored.get("basis") or "",
        stored.get("why_not"),
        {name: _beside(figures[name], measured.get(name) or {}) for name in PREDICTED if name in figures},
    )


def _beside(figure: Mapping[str, Any], measured: Mapping[str, Any]) -> Beside:
    value, predicted = measured.get("value"), figure["predicted"]
    residual = value / predicted - 1 if value is not None and predicted else None
    return Beside(figure["unit"], predicted, figure["low"], figure["high"], value, residual, figure.get("runs"))


def awaits_prediction(run: Run, modelled: bool) -> bool:
    """Whether the run will have a prediction in a while."""
    recent = run.ended_at is not None and run.ended_at > timezone.now() - LOOKED_BACK
    succeeded = run.state == RunState.SUCCEEDED and run.summary is not None
    return recent and succeeded and run.prediction is None and not modelled
