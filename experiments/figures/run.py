"""The charts of one run: its samples as they arrive, and its requests on a time line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from experiments.figures.style import HUES, as_json, layout


def _line(name: str, hue: int, *, dashed: bool, **more: Any) -> go.Scatter:
    line = {"color": HUES[hue], "width": 1.6, "dash": "dash" if dashed else "solid"}
    return go.Scatter(x=[], y=[], name=name, mode="lines+markers", marker={"size": 3}, line=line, **more)


def live_figures(*, modelled: bool) -> dict[str, dict[str, Any]]:
    """The charts of a run without their points, by name; the page's script fills them as samples arrive."""

    def chart(unit: str, *traces: go.Scatter, **more: Any) -> dict[str, Any]:
        frame = layout(
            xaxis={"title": {"text": "run clock, s"}, "rangemode": "tozero"},
            yaxis={"title": {"text": unit}, "rangemode": "tozero"},
            **{"hovermode": "x unified"} | more,
        )
        return as_json(go.Figure(list(traces), frame))

    d = modelled
    return {
        "throughput": chart("tok/s", _line("output", 0, dashed=d), _line("input", 1, dashed=d)),
        "ttft": chart("ms", _line("p50", 0, dashed=d), _line("p95", 1, dashed=d)),
        "itl": chart("ms", _line("p50", 0, dashed=d), _line("p95", 1, dashed=d)),
        "queue": chart("requests", _line("waiting", 1, dashed=d), _line("running", 0, dashed=d)),
        "kv": chart("% of blocks held", _line("mean", 0, dashed=d), _line("max", 3, dashed=d)),
        "owners": chart("KV blocks", barmode="stack", bargap=0, hovermode="closest"),
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
    frame = layout(
        barmode="overlay",
        bargap=0.25,
        xaxis={"title": {"text": "run clock, s"}},
        yaxis={"title": {"text": "request"}, "autorange": "reversed"},
    )
    return as_json(go.Figure(bars, frame))


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
