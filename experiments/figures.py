"""Plotly figures as plain JSON. Colours of axes and text are the page's to set (light and dark), so none are here.

Hue says the setting; a measured series is solid, a modelled one dashed, an invalid point hollow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from experiments.display import name_of, scale_for, settings_label

# Distinct for the common colour-vision deficiencies, and in mid lightness so that they hold on white and on black.
HUES = ("#3b72d9", "#d9772b", "#1d9a84", "#c0497f", "#8a66d6", "#9a861f", "#3f9fc4", "#7f7f86")


def as_json(figure: go.Figure) -> dict[str, Any]:
    """Without Plotly's default template, which would fix colours and weigh more than the data."""
    plain: dict[str, Any] = json.loads(figure.to_json())
    plain["layout"].pop("template", None)
    return plain


def _layout(**more: Any) -> dict[str, Any]:
    return {
        "margin": {"l": 56, "r": 12, "t": 12, "b": 44},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
    } | more


# A run, live


def _line(name: str, hue: int, *, dashed: bool, **more: Any) -> go.Scatter:
    line = {"color": HUES[hue], "width": 1.6, "dash": "dash" if dashed else "solid"}
    return go.Scatter(x=[], y=[], name=name, mode="lines+markers", marker={"size": 3}, line=line, **more)


def _area(name: str, hue: int, group: str) -> go.Scatter:
    return go.Scatter(
        x=[], y=[], name=name, mode="lines", stackgroup=group, line={"width": 0.5, "color": HUES[hue], "shape": "hv"}
    )


def live_figures(*, modelled: bool) -> dict[str, dict[str, Any]]:
    """The charts of a run without their points, by name; the page's script fills them as samples arrive."""

    def chart(unit: str, *traces: go.Scatter, **axis: Any) -> dict[str, Any]:
        layout = _layout(
            xaxis={"title": {"text": "run clock, s"}, "rangemode": "tozero"},
            yaxis={"title": {"text": unit}, "rangemode": "tozero"} | axis,
            hovermode="x unified",
        )
        return as_json(go.Figure(list(traces), layout))

    d = modelled
    return {
        "throughput": chart("tok/s", _line("output", 0, dashed=d), _line("input", 1, dashed=d)),
        "ttft": chart("ms", _line("p50", 0, dashed=d), _line("p95", 1, dashed=d)),
        "itl": chart("ms", _line("p50", 0, dashed=d), _line("p95", 1, dashed=d)),
        "queue": chart("requests", _line("waiting", 1, dashed=d), _line("running", 0, dashed=d)),
        "kv": chart("% of blocks held", _line("mean", 0, dashed=d), _line("max", 3, dashed=d)),
        "steps": chart("tokens a step", _area("prefill", 1, "s"), _area("decode", 0, "s")),
    }


def timeline_figure(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each finished request as one bar: waiting (in the client and the queue), prefill, decode; run clock, s."""
    phases = {"waiting": (7, _waiting), "prefill": (1, _prefill), "decode": (0, _decode)}
    bars = []
    for name, (hue, span) in phases.items():
        spans = [span(row) for row in rows]
        bars.append(
            go.Bar(
                name=name,
                orientation="h",
                y=[row["index"] for row in rows],
                base=[start for start, _ in spans],
                x=[max(0.0, end - start) for start, end in spans],
                marker={"color": HUES[hue], "opacity": [0.35 if row["phase"] == "warmup" else 1 for row in rows]},
                hovertemplate="request %{y}<br>" + name + " %{x:.3f} s<extra></extra>",
            )
        )
    layout = _layout(
        barmode="overlay",
        bargap=0.25,
        xaxis={"title": {"text": "run clock, s"}},
        yaxis={"title": {"text": "request"}, "autorange": "reversed"},
    )
    return as_json(go.Figure(bars, layout))


def _waiting(row: Mapping[str, Any]) -> tuple[float, float]:
    end = row.get("scheduled_first_s") or row.get("first_token_s") or row["finished_s"]
    return row["sent_s"], end


def _prefill(row: Mapping[str, Any]) -> tuple[float, float]:
    start = row.get("scheduled_first_s")
    end = row.get("prefill_done_s") or row.get("first_token_s")
    return (start, end) if start is not None and end is not None else (row["sent_s"], row["sent_s"])


def _decode(row: Mapping[str, Any]) -> tuple[float, float]:
    start = row.get("first_token_s")
    return (start, row["finished_s"]) if start is not None else (row["finished_s"], row["finished_s"])


# Trials beside each other


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
    layout = _layout(
        xaxis={"title": {"text": f"{name_of(x)}, {scales[x].unit}"}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"{name_of(y)}, {scales[y].unit}"}, "rangemode": "tozero"},
        showlegend=True,
    )
    return as_json(go.Figure(traces, layout))


def _point(trial: Mapping[str, Any], index: int, x: str, y: str, scales: Mapping[str, Any]) -> go.Scatter:
    color = HUES[index % len(HUES)]
    symbol = "diamond-open" if trial["modelled"] else "circle"
    label = settings_label(trial["settings"]) + (" (modelled)" if trial["modelled"] else "")

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
        marker={"color": color, "size": 11, "symbol": symbol, "line": {"width": 1.5}},
        hovertemplate=f"{label}<br>%{{x:.3~r}} · %{{y:.3~r}}<extra></extra>",
    )


def _unit(trials: Sequence[Mapping[str, Any]], metric: str) -> str:
    return next((str(trial["metrics"][metric]["unit"]) for trial in trials), "")


def _largest(trials: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    return max((trial["metrics"][metric]["median"] for trial in trials), default=None)
