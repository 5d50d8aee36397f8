"""A trace as its owner sees it: how long its prompts and answers are, and when its requests came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from experiments.figures.style import HUES, as_json, faint, layout

Histogram = Mapping[str, Sequence[float]]


def lengths_figure(inputs: Histogram, outputs: Histogram) -> dict[str, Any]:
    """Requests by the tokens of their prompts and of their answers, both over one logarithmic axis."""
    frame = layout(
        xaxis={"title": {"text": "tokens"}, "type": "log"}, yaxis={"title": {"text": "requests"}, "rangemode": "tozero"}
    )
    lines = [_steps("prompts", inputs, 0), _steps("answers", outputs, 1)]
    return as_json(go.Figure(lines, frame))


def arrivals_figure(arrivals: Histogram) -> dict[str, Any]:
    """Requests per second over the trace's time, as recorded."""
    bounds, counts = arrivals["bounds"], arrivals["counts"]
    width_s = bounds[1] - bounds[0]
    rates = {"bounds": bounds, "counts": [count / width_s for count in counts]}
    frame = layout(
        xaxis={"title": {"text": "trace time, s"}},
        yaxis={"title": {"text": "requests per second"}, "rangemode": "tozero"},
        showlegend=False,
    )
    return as_json(go.Figure([_steps("arrivals", rates, 2)], frame))


def _steps(name: str, histogram: Histogram, hue: int) -> go.Scatter:
    """Bars as one outline, which stays readable where two overlap."""
    counts = list(histogram["counts"])
    return go.Scatter(
        x=list(histogram["bounds"]),
        y=[*counts, counts[-1]],
        name=name,
        mode="lines",
        fill="tozeroy",
        fillcolor=faint(HUES[hue]),
        line={"color": HUES[hue], "width": 1.6, "shape": "hv"},
        hovertemplate="from %{x:.4~g}: %{y:.4~g}<extra>" + name + "</extra>",
    )
