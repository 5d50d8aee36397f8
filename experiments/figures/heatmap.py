"""A metric over two axes of a matrix: one cell for each trial, with how many runs it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from experiments.analysis.speculative import Bands
from experiments.figures.style import as_json, layout, plain
from runners.display import digits, name_of, scale_for, setting_value, shown

# Light to dark in one direction and readable in grey, so that it holds for every colour vision.
COLORS = "Viridis"


@dataclass(frozen=True)
class Plane:
    """The slice of a matrix that is shown: two axes with their values, the others held at one value each."""

    x: str
    y: str
    x_values: Sequence[Any]
    y_values: Sequence[Any]
    held: Mapping[str, Any]


def heat_figure(
    trials: Sequence[Mapping[str, Any]], plane: Plane, metric: str, bands: Bands | None = None
) -> dict[str, Any]:
    """`trials` as experiments.analysis.compare gives them. A cell without a valid run has no colour and says why; one
    that rests on stand-ins says its band."""
    bands = bands or {}
    cells = [[_find(trials, plane, x, y) for x in plane.x_values] for y in plane.y_values]
    values = [one["metrics"][metric] for row in cells for one in row if one and one["metrics"].get(metric)]
    areas = [of_trial[metric] for of_trial in bands.values() if metric in of_trial]
    unit = values[0]["unit"] if values else areas[0].unit if areas else ""
    largest = max((abs(value["median"]) for value in values), default=max((one.high for one in areas), default=None))
    scale = scale_for(unit, largest)

    def number(trial: Mapping[str, Any] | None) -> float | None:
        found = trial["metrics"].get(metric) if trial else None
        return None if found is None else found["median"] * scale.factor

    def words(trial: Mapping[str, Any] | None) -> str:
        if trial is None:
            return "left out"
        found, band = trial["metrics"].get(metric), bands.get(trial["id"], {}).get(metric)
        if found is None and band is not None:
            low, high = digits(band.low * scale.factor), shown(band.high, band.unit, scale)
            return f"{low} – {high}<br>modelled,<br>speculative"
        if found is None:
            return _why_empty(trial)
        kind = "".join(f", {kind}" for kind in ("modelled", "imported") if trial.get(kind))
        return f"{shown(found['median'], unit, scale)}<br>n = {found['n']}{kind}"

    trace = go.Heatmap(
        x=[plain(setting_value(value)) for value in plane.x_values],
        y=[plain(setting_value(value)) for value in plane.y_values],
        z=[[number(one) for one in row] for row in cells],
        text=[[words(one) if number(one) is not None else "" for one in row] for row in cells],
        customdata=[[one["id"] if one else None for one in row] for row in cells],
        texttemplate="%{text}",
        hovertemplate=f"{plain(plane.x)} %{{x}}<br>{plain(plane.y)} %{{y}}<br>%{{text}}<extra></extra>",
        colorscale=COLORS,
        colorbar={"title": {"text": scale.unit}, "thickness": 12, "outlinewidth": 0},
        xgap=2,
        ygap=2,
    )
    frame = layout(
        xaxis={"title": {"text": plain(plane.x)}, "type": "category", "showgrid": False},
        yaxis={"title": {"text": plain(plane.y)}, "type": "category", "showgrid": False},
        annotations=_empty_cells(cells, metric, words),
    )
    figure = as_json(go.Figure([trace], frame))
    figure["layout"]["meta"] = {"metric": name_of(metric)}
    return figure


def _find(trials: Sequence[Mapping[str, Any]], plane: Plane, x: Any, y: Any) -> Mapping[str, Any] | None:
    wanted = {**plane.held, plane.x: x, plane.y: y}
    return next((trial for trial in trials if _same(trial["settings"], wanted)), None)


def _same(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """1 and true are different settings."""
    return all(
        path in settings and settings[path] == value and isinstance(settings[path], bool) == isinstance(value, bool)
        for path, value in wanted.items()
    )


def _why_empty(trial: Mapping[str, Any]) -> str:
    runs = trial["runs"]
    if not runs:
        return "waiting"
    return "not measured" if any(run["valid"] for run in runs) else f"invalid<br>{len(runs)} run{'s' * (len(runs) > 1)}"


def _empty_cells(cells: Any, metric: str, words: Any) -> list[dict[str, Any]]:
    """Plotly writes no text into cells without a value. By the place of each cell: it takes a name that looks like a
    number for a place."""
    return [
        {
            "x": across,
            "y": up,
            "text": words(one),
            "showarrow": False,
            "font": {"size": 10},
        }
        for up, row in enumerate(cells)
        for across, one in enumerate(row)
        if one is None or not one["metrics"].get(metric)
    ]
