"""A ladder as a waterfall: a bar from each rung's mean to the next one's, with the interval of what the step gained.

Hue says what may be said of a step: better, worse, or no difference shown. Modelled bars are hatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from experiments.analysis.waterfall import Change, Waterfall
from experiments.figures.style import HUES, as_json, layout, plain
from runners.display import Scale, digits, name_of, scale_for, shown

BETTER, WORSE, UNDECIDED, LEVEL = HUES[2], HUES[1], HUES[7], HUES[0]
TOTAL = "all together"


@dataclass(frozen=True)
class _Bar:
    """From `foot` to `top`, in the metric's unit; `low` and `high` are where the interval lets the top lie."""

    label: str
    foot: float
    top: float
    hue: str
    modelled: bool
    words: str
    low: float | None = None
    high: float | None = None


def waterfall_figure(found: Waterfall) -> dict[str, Any]:
    """The rungs that have a mean, the foot first, and the last rung as the whole beside them."""
    means = [rung.mean for rung in found.rungs if rung.mean is not None]
    scale = scale_for(found.unit, max(means, default=None))
    bars = _bars(found, scale)
    frame = layout(
        xaxis={"type": "category", "showgrid": False, "automargin": True},
        yaxis={"title": {"text": f"{name_of(found.metric)}, {scale.unit}"}, "rangemode": "tozero"},
        shapes=_connectors(bars, scale),
        showlegend=False,
        bargap=0.35,
    )
    return as_json(go.Figure([_trace(bars, scale)] if bars else [], frame))


def _bars(found: Waterfall, scale: Scale) -> list[_Bar]:
    bars: list[_Bar] = []
    below: float | None = None
    for rung in found.rungs:
        if rung.mean is None:
            continue
        if rung.gain is None or below is None:
            bars.append(_Bar(rung.label, 0.0, rung.mean, LEVEL, rung.modelled, _level(rung.mean, rung.n, found, scale)))
        else:
            bars.append(_step(rung.label, below, rung.mean, rung.gain, rung.verdict, rung.modelled, found, scale))
        below = rung.mean
    if len(bars) > 1 and below is not None:
        last = found.rungs[-1]
        words = _level(below, last.n, found, scale)
        if found.total is not None:
            words += f"<br>{_gain(found.total, found.total_verdict, scale, found.unit)} over the foot"
        bars.append(_Bar(TOTAL, 0.0, below, LEVEL, last.modelled, words))
    return bars


def _step(
    label: str, below: float, mean: float, gain: Change, verdict: str, modelled: bool, found: Waterfall, scale: Scale
) -> _Bar:
    hue = {"better": BETTER, "worse": WORSE}.get(verdict, UNDECIDED)
    ends = [None if gain[end] is None else below + gain[end] for end in ("low", "high")]
    return _Bar(label, below, mean, hue, modelled, _gain(gain, verdict, scale, found.unit), *ends)


def _level(mean: float, n: int, found: Waterfall, scale: Scale) -> str:
    return f"{shown(mean, found.unit, scale)}<br>n = {n}"


def _gain(gain: Change, verdict: str, scale: Scale, unit: str) -> str:
    """A difference with its interval and how many runs it rests on."""
    relative = "" if gain["relative"] is None else f" ({gain['relative']:+.1%})"
    words = f"{shown(gain['difference'], unit, scale)}{relative}"
    if gain["low"] is not None:
        words += f"<br>{digits(gain['low'] * scale.factor)} to {digits(gain['high'] * scale.factor)}"
    return f"{words}<br>n = {gain['n']}: {plain(verdict)}"


def _trace(bars: Sequence[_Bar], scale: Scale) -> go.Bar:
    def beyond(bar: _Bar, end: float | None, sign: int) -> float:
        return 0.0 if end is None else max(sign * (end - bar.top), 0.0) * scale.factor

    return go.Bar(
        x=[plain(bar.label) for bar in bars],
        base=[bar.foot * scale.factor for bar in bars],
        y=[(bar.top - bar.foot) * scale.factor for bar in bars],
        marker={
            "color": [bar.hue for bar in bars],
            "pattern": {"shape": ["/" if bar.modelled else "" for bar in bars], "solidity": 0.3},
        },
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [beyond(bar, bar.high, 1) for bar in bars],
            "arrayminus": [beyond(bar, bar.low, -1) for bar in bars],
            "thickness": 1.5,
            "width": 4,
        },
        customdata=[bar.words for bar in bars],
        hovertemplate="%{x}<br>%{customdata}<extra></extra>",
    )


def _connectors(bars: Sequence[_Bar], scale: Scale) -> list[dict[str, Any]]:
    """From the top of each bar to the next one, so that the eye follows the level."""
    return [
        {
            "type": "line",
            "x0": place,
            "x1": place + 1,
            "y0": bar.top * scale.factor,
            "y1": bar.top * scale.factor,
            "line": {"color": "#8b8f98", "width": 1, "dash": "dot"},
            "layer": "below",
        }
        for place, bar in enumerate(bars[:-1])
    ]
