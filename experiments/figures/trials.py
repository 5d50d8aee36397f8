"""Trials beside each other: one metric against another. What rests on stand-ins is a band, never a point.

Trials that differ in their load alone are one curve; a measured curve is solid, a modelled one dashed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.analysis.speculative import Band, Bands
from experiments.figures.style import HUES, faint, layout, plain, trace
from runners.display import Scale, name_of, scale_for, settings_label

MOST_IN_LEGEND = 12
LOAD = "workload.arrival."
# Filled for measured ones; of more curves than hues the next symbol tells them apart.
SYMBOLS = ("circle", "square", "triangle-up")
MODELLED_SYMBOLS = ("diamond-open", "square-open", "triangle-up-open")

Trial = Mapping[str, Any]


@dataclass(frozen=True)
class Curve:
    """Trials of one experiment whose settings but the load are the same; `place` gives it its hue."""

    place: int
    label: str
    modelled: bool
    trials: tuple[Trial, ...]

    @property
    def hue(self) -> str:
        return HUES[self.place % len(HUES)]

    @property
    def symbol(self) -> str:
        symbols = MODELLED_SYMBOLS if self.modelled else SYMBOLS
        return symbols[self.place // len(HUES) % len(symbols)]


def tradeoff_figure(
    trials: Iterable[Trial], x: str, y: str, front: Sequence[int] = (), bands: Bands | None = None
) -> dict[str, Any]:
    """Trials as points of two metrics with their intervals, those of one curve joined; the Pareto front of the valid
    ones as a line. `bands` are by trial those of speculative ones."""
    bands = {trial: found for trial, found in (bands or {}).items() if {x, y} <= found.keys()}
    drawn = [trial for trial in trials if _has(trial, x, y) or trial["id"] in bands]
    scales = {axis: _scale(drawn, bands, axis) for axis in (x, y)}
    curves = curves_of(drawn)
    traces = _fronts({trial["id"]: trial for trial in drawn if _has(trial, x, y)}, front, x, y, scales)
    for curve in curves:
        points = sorted(
            (one for one in curve.trials if _has(one, x, y)), key=lambda one: float(one["metrics"][x]["median"])
        )
        traces += [_points(curve, points, x, y, scales)] if points else []
        traces += [_area(curve, one, bands[one["id"]], x, y, scales) for one in curve.trials if one["id"] in bands]
    frame = layout(
        xaxis={"title": {"text": f"{name_of(x)}, {scales[x].unit}"}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"{name_of(y)}, {scales[y].unit}"}, "rangemode": "tozero"},
        # Of many curves a legend would push the chart aside; the pointer tells which is which.
        showlegend=len(curves) <= MOST_IN_LEGEND,
    )
    return {"data": traces, "layout": frame}


def curves_of(trials: Iterable[Trial]) -> list[Curve]:
    """In the order of their first trials."""
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        settings = {path: value for path, value in trial["settings"].items() if not path.startswith(LOAD)}
        key = [trial.get("experiment_id"), trial["modelled"], trial.get("imported"), settings]
        found.setdefault(json.dumps(key, sort_keys=True), []).append(trial)
    many = len({trial.get("experiment_id") for members in found.values() for trial in members}) > 1
    return [
        Curve(place, _label(members, many), members[0]["modelled"], tuple(members))
        for place, members in enumerate(found.values())
    ]


def _label(members: Sequence[Trial], many: bool) -> str:
    first = members[0]
    settings = first["settings"]
    if len(members) > 1:
        settings = {path: value for path, value in settings.items() if not path.startswith(LOAD)}
    told = str(first.get("label") or "") if len(members) == 1 else ""
    name = f" · {first['experiment_name'][:40]}" if many and first.get("experiment_name") else ""
    return plain((told or settings_label(settings)) + name) + kind_told(first)


def kind_told(trial: Trial) -> str:
    """What is no measurement of this lab says so after its name."""
    kinds = [kind for kind in ("modelled", "imported") if trial.get(kind)]
    return f" ({', '.join(kinds)})" if kinds else ""


def _has(trial: Trial, x: str, y: str) -> bool:
    return bool(trial["metrics"].get(x) and trial["metrics"].get(y))


def _fronts(
    points: Mapping[int, Trial], front: Sequence[int], x: str, y: str, scales: Mapping[str, Scale]
) -> list[dict[str, Any]]:
    return [
        trace(
            "scatter",
            x=[points[i]["metrics"][x]["median"] * scales[x].factor for i in part],
            y=[points[i]["metrics"][y]["median"] * scales[y].factor for i in part],
            mode="lines",
            line={"color": "#8b8f98", "width": 1, "dash": "dash" if "modelled" in kind else "dot"},
            name=f"Pareto front{kind}",
            hoverinfo="skip",
        )
        for kind in sorted({kind_told(trial) for trial in points.values()})
        if len(part := [i for i in front if i in points and kind_told(points[i]) == kind]) > 1
    ]


def _points(curve: Curve, trials: Sequence[Trial], x: str, y: str, scales: Mapping[str, Scale]) -> dict[str, Any]:
    def values(axis: str) -> list[float]:
        return [trial["metrics"][axis]["median"] * scales[axis].factor for trial in trials]

    def about(trial: Trial) -> str:
        return plain(settings_label(trial["settings"])) + kind_told(trial)

    return trace(
        "scatter",
        x=values(x),
        y=values(y),
        error_x=_errors(curve, trials, x, scales[x]),
        error_y=_errors(curve, trials, y, scales[y]),
        mode="lines+markers" if len(trials) > 1 else "markers",
        name=curve.label,
        customdata=[trial["id"] for trial in trials],
        text=[about(trial) for trial in trials],
        line={"color": curve.hue, "width": 1.4, "dash": "dash" if curve.modelled else "solid"},
        marker={"color": curve.hue, "size": 11, "symbol": curve.symbol, "line": {"width": 1.5}},
        hovertemplate="%{text}<br>%{x:.3~r} · %{y:.3~r}<extra></extra>",
    )


def _errors(curve: Curve, trials: Sequence[Trial], axis: str, scale: Scale) -> dict[str, Any] | None:
    found = [trial["metrics"][axis] for trial in trials]
    if all(metric["low"] is None for metric in found):
        return None
    ends = [
        (0.0, 0.0) if one["low"] is None else (one["high"] - one["median"], one["median"] - one["low"]) for one in found
    ]
    up, down = ([value * scale.factor for value in side] for side in zip(*ends, strict=True))
    look = {"thickness": 1, "width": 3, "color": faint(curve.hue, 0.5)}
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, **look}


def _area(
    curve: Curve, trial: Trial, bands: Mapping[str, Band], x: str, y: str, scales: Mapping[str, Scale]
) -> dict[str, Any]:
    (left, right), (low, high) = (
        (bands[axis].low * scales[axis].factor, bands[axis].high * scales[axis].factor) for axis in (x, y)
    )
    return trace(
        "scatter",
        x=[left, right, right, left, left],
        y=[low, low, high, high, low],
        mode="lines",
        name=f"{curve.label}, speculative",
        legendgroup=f"speculative {curve.place}",
        showlegend=trial is curve.trials[0],
        customdata=[trial["id"]] * 5,
        line={"color": curve.hue, "width": 1, "dash": "dot"},
        fill="toself",
        fillcolor=faint(curve.hue),
        hoverinfo="name",
    )


def _scale(trials: Sequence[Trial], bands: Bands, metric: str) -> Scale:
    points = [found for trial in trials if (found := trial["metrics"].get(metric))]
    areas = [found[metric] for found in bands.values()]
    unit = next((str(found["unit"]) for found in points), next((band.unit for band in areas), ""))
    return scale_for(unit, max([*(found["median"] for found in points), *(band.high for band in areas)], default=None))
