"""What all figures share: hues, layout, and the plain JSON that a page's script draws.

Plotly figures, built here and drawn in the browser. Colours of axes and text are the page's to set (light and dark), so
none are here. Hue says the setting; a measured series is solid, a modelled one dashed, an invalid point hollow.
"""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go

# Distinct for the common colour-vision deficiencies, and in mid lightness so that they hold on white and on black.
HUES = ("#3b72d9", "#d9772b", "#1d9a84", "#c0497f", "#8a66d6", "#9a861f", "#3f9fc4", "#7f7f86")


def as_json(figure: go.Figure) -> dict[str, Any]:
    """Without Plotly's default template, which would fix colours and weigh more than the data."""
    plain: dict[str, Any] = json.loads(figure.to_json())
    plain["layout"].pop("template", None)
    return plain


def trace(kind: str, **properties: Any) -> dict[str, Any]:
    """A trace as plain JSON, without Plotly's check of each value, which of hundreds of traces takes longer than all
    else of a page: for those that there is one of for each trial. What is None is left out."""
    return {"type": kind} | {name: value for name, value in properties.items() if value is not None}


def plain(text: str) -> str:
    """A text that Plotly is to show as it is: its labels know some HTML, links too, and its templates `%{…}`."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "&#37;{")


def faint(hue: str, opacity: float = 0.15) -> str:
    """A hue of HUES as the filling of an area, or as a line that stands back."""
    red, green, blue = (int(hue[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def layout(**more: Any) -> dict[str, Any]:
    return {
        "margin": {"l": 56, "r": 12, "t": 12, "b": 44},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
    } | more
