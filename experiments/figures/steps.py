"""The engine's steps on the run's clock: what each held, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from experiments.figures.style import HUES, as_json, layout
from experiments.steps import ShownStep

# Narrower than this share of the chart a bar can't be seen; a short step is then drawn wider than it was.
LEAST_WIDTH = 1 / 700


def steps_figure(shown: Sequence[ShownStep], *, modelled: bool) -> dict[str, Any]:
    """Above, prefill and decode tokens of each step, as wide as the step took; below, its duration. One clock, s."""
    steps = [one.step for one in shown]
    span_s = steps[-1].start_s + steps[-1].duration_s - steps[0].start_s if steps else 0.0
    widths = [max(step.duration_s, span_s * LEAST_WIDTH) for step in steps]
    middles = [step.start_s + width / 2 for step, width in zip(steps, widths, strict=True)]
    texts = [about(one) for one in shown]

    def bars(name: str, hue: int, tokens: list[int]) -> go.Bar:
        return go.Bar(
            x=middles,
            y=tokens,
            width=widths,
            name=name,
            marker={"color": HUES[hue], "line": {"width": 0}},
            customdata=texts,
            hovertemplate="%{customdata}<extra></extra>",
        )

    durations = go.Scatter(
        x=[step.start_s for step in steps],
        y=[step.duration_s * 1000 for step in steps],
        name="duration",
        mode="lines" if len(steps) > 1 else "markers",
        yaxis="y2",
        line={"color": HUES[3], "width": 1.2, "shape": "hv", "dash": "dash" if modelled else "solid"},
        customdata=texts,
        hovertemplate="%{customdata}<extra></extra>",
    )
    frame = layout(
        barmode="stack",
        bargap=0,
        xaxis={"title": {"text": "run clock, s"}, "anchor": "y2"},
        yaxis={"title": {"text": "tokens a step"}, "domain": [0.4, 1.0], "rangemode": "tozero"},
        yaxis2={"title": {"text": "ms"}, "domain": [0.0, 0.3], "rangemode": "tozero"},
    )
    prefill, decode = [step.prefill_tokens for step in steps], [step.decode_tokens for step in steps]
    return as_json(go.Figure([bars("prefill", 1, prefill), bars("decode", 0, decode), durations], frame))


def about(shown: ShownStep) -> str:
    """A step in a few lines, as the pointer shows it."""
    step = shown.step
    largest = f" (the largest of {shown.steps})" if shown.steps > 1 else ""
    return (
        f"step {step.index}{largest}<br>{step.prefill_tokens} prefill + {step.decode_tokens} decode tokens"
        f"<br>{step.duration_s * 1000:.3g} ms · {step.running} running, {step.waiting} waiting{_bound(shown)}"
    )


def _bound(shown: ShownStep) -> str:
    """What a modelled step was bound by, and the links' part of it."""
    step = shown.step
    link = f", {100 * step.link_s / step.duration_s:.3g} % on links" if step.link_s and step.duration_s else ""
    return f"<br>bound by {step.bound}{link}" if step.bound else ""
