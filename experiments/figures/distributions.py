"""How a latency is distributed over the requests of each trial: cumulative curves, and boxes beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.analysis.distributions import Pooled
from experiments.figures.style import HUES, layout, plain, trace
from runners.display import Scale, name_of, scale_for

WHISKERS = (0.01, 0.99)


@dataclass(frozen=True)
class TrialDistribution:
    """All requests of a trial's valid runs. `hue` is the trial's place on the page: it keeps its colour."""

    label: str
    hue: int
    modelled: bool
    pooled: Pooled
    imported: bool = False


def curve_figure(trials: Sequence[TrialDistribution], metric: str, unit: str) -> dict[str, Any]:
    """Cumulative share of requests, in percent, at or below each value; a modelled trial is dashed."""
    scale = _scale(trials, unit)
    curves = [
        trace(
            "scatter",
            x=[trial.pooled.values[0] * scale.factor, *(value * scale.factor for value in trial.pooled.values)],
            y=[0.0, *(100 * share for share in trial.pooled.shares)],
            name=_label(trial),
            mode="lines",
            line={"color": _hue(trial), "width": 1.8, "dash": "dash" if trial.modelled else "solid"},
            hovertemplate=f"{_label(trial)}<br>%{{y:.3~g}} % at most %{{x:.4~g}} {scale.unit}<extra></extra>",
        )
        for trial in trials
    ]
    frame = layout(
        xaxis={"title": {"text": f"{name_of(metric)}, {scale.unit}"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "% of requests at most"}, "range": [0, 101]},
    )
    return {"data": curves, "layout": frame}


def box_figure(trials: Sequence[TrialDistribution], metric: str, unit: str) -> dict[str, Any]:
    """Quartiles in the box, p1 and p99 at the whiskers' ends; the first trial on top."""
    scale = _scale(trials, unit)
    boxes = [
        trace(
            "box",
            orientation="h",
            y=[_label(trial)],
            **_five_numbers(trial, scale),
            name=_label(trial),
            line={"color": _hue(trial), "width": 1.4},
            fillcolor="rgba(0,0,0,0)",
            showlegend=False,
        )
        for trial in trials
    ]
    frame = layout(
        xaxis={"title": {"text": f"{name_of(metric)}, {scale.unit}"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "showticklabels": len(trials) > 1},
        boxgap=0.35,
    )
    return {"data": boxes, "layout": frame}


def _five_numbers(trial: TrialDistribution, scale: Scale) -> dict[str, list[float]]:
    shares = {"lowerfence": WHISKERS[0], "q1": 0.25, "median": 0.5, "q3": 0.75, "upperfence": WHISKERS[1]}
    return {name: [trial.pooled.quantile(share) * scale.factor] for name, share in shares.items()}


def _scale(trials: Sequence[TrialDistribution], unit: str) -> Scale:
    return scale_for(unit, max((trial.pooled.quantile(0.5) for trial in trials), default=None))


def _label(trial: TrialDistribution) -> str:
    return plain(trial.label) + (" (modelled)" if trial.modelled else "") + (" (imported)" if trial.imported else "")


def _hue(trial: TrialDistribution) -> str:
    return HUES[trial.hue % len(HUES)]
