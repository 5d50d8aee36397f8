"""What a modelled run's steps were bound by: one stacked bar for each phase, in seconds of step time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from experiments.figures.style import HUES, as_json, layout, plain
from experiments.system_facts import PARTS, Phase

# As all that is modelled, not solid.
HATCHED = {"shape": "/", "fillmode": "overlay", "size": 6, "solidity": 0.1}
PART_HUES = {"compute": 0, "bandwidth": 2, "link": 3, "overhead": 7}


def phase_figure(phases: Sequence[Phase]) -> dict[str, Any]:
    """Prefill above decode; a part that a phase has none of is left out of its bar, and of the legend if of all."""
    scale, unit = (1000.0, "ms") if max(phase.seconds for phase in phases) < 1 else (1.0, "s")
    bars = [
        go.Bar(
            name=part,
            orientation="h",
            y=[plain(phase.name) for phase in phases],
            x=[phase.parts[part] * scale for phase in phases],
            customdata=[100 * phase.share(part) for phase in phases],
            marker={"color": HUES[PART_HUES[part]], "pattern": HATCHED},
            hovertemplate=f"%{{y}}: {part}<br>%{{x:.3~g}} {unit}, %{{customdata:.3~g}} % of it<extra></extra>",
        )
        for part in PARTS
        if any(phase.parts[part] for phase in phases)
    ]
    frame = layout(
        barmode="stack",
        bargap=0.45,
        xaxis={"title": {"text": f"step time, {unit} (modelled)"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
        showlegend=True,
    )
    return as_json(go.Figure(bars, frame))
