"""Where the time to a first token went: one stacked bar of mean parts for a run, or for each of several trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import plotly.graph_objects as go

from experiments.figures.style import HUES, as_json, layout, plain
from runners.ttft_parts import PARTS

LABELS = {
    "client_wait": "client wait",
    "network": "network",
    "queue": "queue",
    "prefill": "prefill",
    "first_sample": "first sample and way back",
}
PART_HUES = {"client_wait": 7, "network": 4, "queue": 1, "prefill": 0, "first_sample": 2}
# As all that is modelled, not solid.
HATCHED = {"shape": "/", "fillmode": "overlay", "size": 6, "solidity": 0.1}


@dataclass(frozen=True)
class TtftBar:
    """`mean_s` are the parts by name, of `n` requests."""

    label: str
    modelled: bool
    n: int
    mean_s: Mapping[str, float]


def ttft_bar(label: str, modelled: bool, stored: Sequence[Mapping[str, Any] | None]) -> TtftBar | None:
    """Of a trial's runs: the mean over runs, as the run is the unit. None where no run told its parts."""
    told = [parts for parts in stored if parts]
    if not told:
        return None
    means = {part: fmean(parts["mean_s"][part] for parts in told) for part in PARTS}
    return TtftBar(label, modelled, sum(parts["n"] for parts in told), means)


def ttft_figure(bars: Sequence[TtftBar]) -> dict[str, Any]:
    """A part that no bar has any of is left out. The client wait comes first: without it the bar is TTFT."""
    longest = max(sum(bar.mean_s.values()) for bar in bars)
    scale, unit = (1000.0, "ms") if longest < 1 else (1.0, "s")
    traces = [
        go.Bar(
            name=LABELS[part],
            orientation="h",
            y=[plain(bar.label) for bar in bars],
            x=[max(bar.mean_s[part], 0.0) * scale for bar in bars],
            customdata=[[bar.n] for bar in bars],
            marker={
                "color": HUES[PART_HUES[part]],
                "pattern": {**HATCHED, "shape": ["/" if bar.modelled else "" for bar in bars]},
            },
            hovertemplate=f"{LABELS[part]}<br>%{{x:.3~g}} {unit}, mean of %{{customdata[0]}} requests<extra></extra>",
        )
        for part in PARTS
        if any(bar.mean_s[part] > 0 for bar in bars)
    ]
    modelled = " (modelled)" if all(bar.modelled for bar in bars) else ""
    frame = layout(
        barmode="stack",
        bargap=0.45,
        xaxis={"title": {"text": f"mean effective TTFT, {unit}{modelled}"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "automargin": True},
        showlegend=True,
    )
    return as_json(go.Figure(traces, frame))
