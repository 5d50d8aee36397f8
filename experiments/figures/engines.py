"""Several engines of one run on its clock: whose step ran when, and how much of its KV blocks each engine held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from experiments.figures.steps import LEAST_WIDTH, about
from experiments.figures.style import HUES, as_json, layout, plain
from experiments.steps import ShownStep

MOST_IN_LEGEND = 12
PHASES = (("prefill", 1), ("decode", 0))


def lanes_figure(shown: Sequence[ShownStep]) -> dict[str, Any]:
    """One lane for each engine; a step is a bar as long as it took, by whether it computed a prompt."""
    span_s = _end_s(shown) - min((one.step.start_s for one in shown), default=0.0)

    def lane(name: str, hue: int) -> go.Bar:
        of_phase = [one for one in shown if ("prefill" if one.step.prefill_tokens else "decode") == name]
        return go.Bar(
            name=name,
            orientation="h",
            base=[one.step.start_s for one in of_phase],
            x=[max(one.step.duration_s, span_s * LEAST_WIDTH) for one in of_phase],
            y=[plain(one.step.engine or "") for one in of_phase],
            marker={"color": HUES[hue], "line": {"width": 0}},
            customdata=[about(one) for one in of_phase],
            hovertemplate="%{y}: %{customdata}<extra></extra>",
        )

    frame = layout(
        barmode="overlay",
        bargap=0.25,
        xaxis={"title": {"text": "run clock, s"}},
        yaxis={"type": "category", "categoryorder": "array", "categoryarray": _engines(shown), "autorange": "reversed"},
    )
    return as_json(go.Figure([lane(name, hue) for name, hue in PHASES], frame))


def kv_figure(shown: Sequence[ShownStep], *, modelled: bool) -> dict[str, Any]:
    """The share of each engine's KV blocks that sequences hold, in percent: one line for each engine, of many engines
    in one hue for all of a role."""
    lines = []
    engines = _engines(shown)
    roles = list(dict.fromkeys(_role(engine) for engine in engines))
    many, named = len(engines) > MOST_IN_LEGEND, set[str]()
    for number, engine in enumerate(engines):
        group = _role(engine) if many else engine
        hue = HUES[(roles.index(group) if many else number) % len(HUES)]
        steps = [one.step for one in shown if one.step.engine == engine]
        totals = [step.kv_used_blocks + step.kv_cached_blocks + step.kv_free_blocks for step in steps]
        lines.append(
            go.Scatter(
                name=plain(group),
                legendgroup=plain(group),
                showlegend=group not in named,
                x=[step.start_s for step in steps],
                y=[
                    100 * step.kv_used_blocks / total if total else None
                    for step, total in zip(steps, totals, strict=True)
                ],
                mode="lines",
                line={"color": hue, "width": 0.8 if many else 1.4, "dash": "dash" if modelled else "solid"},
                hovertemplate=f"{plain(engine)}<br>%{{y:.3~g}} % of its blocks<extra></extra>",
            )
        )
        named.add(group)
    frame = layout(
        xaxis={"title": {"text": "run clock, s"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "% of blocks held"}, "rangemode": "tozero"},
    )
    return as_json(go.Figure(lines, frame))


def _engines(shown: Sequence[ShownStep]) -> list[str]:
    return sorted({one.step.engine for one in shown if one.step.engine}, key=_place)


def _role(engine: str) -> str:
    return engine.rpartition("-")[0]


def _place(engine: str) -> tuple[int, str, int]:
    """Prefill before decode, and the tenth after the second."""
    role, _, number = engine.rpartition("-")
    return int(role.startswith("decode")), role, int(number) if number.isdecimal() else 0


def _end_s(shown: Sequence[ShownStep]) -> float:
    return max((one.step.start_s + one.step.duration_s for one in shown), default=0.0)
