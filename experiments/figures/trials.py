"""Trials beside each other: one metric against another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from experiments.figures.style import HUES, as_json, layout, plain
from runners.display import name_of, scale_for, settings_label

MOST_IN_LEGEND = 12


def tradeoff_figure(trials: Iterable[Mapping[str, Any]], x: str, y: str, front: Sequence[int] = ()) -> dict[str, Any]:
    """Trials as points of two metrics with their intervals; the Pareto front of the valid ones as a line."""
    shown = [trial for trial in trials if trial["metrics"].get(x) and trial["metrics"].get(y)]
    scales = {axis: scale_for(_unit(shown, axis), _largest(shown, axis)) for axis in (x, y)}
    by_id = {trial["id"]: trial for trial in shown}
    traces = [
        go.Scatter(
            x=[by_id[i]["metrics"][x]["median"] * scales[x].factor for i in part],
            y=[by_id[i]["metrics"][y]["median"] * scales[y].factor for i in part],
            mode="lines",
            line={"color": "#8b8f98", "width": 1, "dash": "dash" if modelled else "dot"},
            name="Pareto front (modelled)" if modelled else "Pareto front",
            hoverinfo="skip",
        )
        for modelled in (False, True)
        if len(part := [i for i in front if i in by_id and by_id[i]["modelled"] is modelled]) > 1
    ]
    for index, trial in enumerate(shown):
        traces.append(_point(trial, index, x, y, scales))
    frame = layout(
        xaxis={"title": {"text": f"{name_of(x)}, {scales[x].unit}"}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"{name_of(y)}, {scales[y].unit}"}, "rangemode": "tozero"},
        # Of many trials a legend would push the chart aside; the pointer tells which is which.
        showlegend=len(shown) <= MOST_IN_LEGEND,
    )
    return as_json(go.Figure(traces, frame))


def _point(trial: Mapping[str, Any], index: int, x: str, y: str, scales: Mapping[str, Any]) -> go.Scatter:
    color = HUES[index % len(HUES)]
    symbol = "diamond-open" if trial["modelled"] else "circle"
    label = plain(settings_label(trial["settings"])) + (" (modelled)" if trial["modelled"] else "")

    def error(axis: str) -> dict[str, Any] | None:
        metric = trial["metrics"][axis]
        if metric["low"] is None:
            return None
        factor = scales[axis].factor
        up, down = (metric["high"] - metric["median"]) * factor, (metric["median"] - metric["low"]) * factor
        return {"type": "data", "symmetric": False, "array": [up], "arrayminus": [down], "thickness": 1, "width": 3}

    return go.Scatter(
        x=[trial["metrics"][x]["median"] * scales[x].factor],
        y=[trial["metrics"][y]["median"] * scales[y].factor],
        error_x=error(x),
        error_y=error(y),
        mode="markers",
        name=label,
        customdata=[trial["id"]],
        marker={"color": color, "size": 11, "symbol": symbol, "line": {"width": 1.5}},
        hovertemplate=f"{label}<br>%{{x:.3~r}} · %{{y:.3~r}}<extra></extra>",
    )


def _unit(trials: Sequence[Mapping[str, Any]], metric: str) -> str:
    return next((str(trial["metrics"][metric]["unit"]) for trial in trials), "")


def _largest(trials: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    return max((trial["metrics"][metric]["median"] for trial in trials), default=None)
