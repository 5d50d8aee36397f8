"""A search as it went: levels of load that held or breached with the bracket between them, or settings that were tried.

Filled points may be the answer, hollow ones not. What is modelled is joined by dashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from experiments.analysis.compare import COMPARED
from experiments.figures.style import HUES, as_json, faint, layout, plain
from experiments.search.best import BestCourse
from experiments.search.explore import Explored
from experiments.search.front import FrontCourse
from experiments.search.load import Level, LoadCourse, Said
from experiments.search.seen import TrialSeen
from runners.display import name_of, scale_for, settings_label, shown

LINE, HOLDS, BREAKS, UNKNOWN = HUES[0], HUES[2], HUES[1], HUES[7]
MARKS = {
    Said.PASSED: ("holds", HOLDS, "circle"),
    Said.BREACHED: ("breach", BREAKS, "x"),
    Said.UNJUDGED: ("not judged", UNKNOWN, "circle-open"),
    Said.OPEN: ("under way", UNKNOWN, "diamond-open"),
}


def load_figure(course: LoadCourse) -> dict[str, Any]:
    """Levels in the order in which they were tried; the band is where the highest load lies."""
    tried = sorted(course.levels, key=lambda level: level.trial)
    places = {level.trial: place for place, level in enumerate(tried, start=1)}
    dash = "dash" if _modelled(course.trials) else "solid"
    line = {"color": faint(LINE, 0.6), "width": 1.5, "dash": dash}
    path = go.Scatter(
        x=list(places.values()),
        y=[one.load for one in tried],
        mode="lines",
        line=line,
        hoverinfo="skip",
        showlegend=False,
    )
    points = [_levels(said, [one for one in tried if one.said is said], places) for said in MARKS]
    axis = "users at once" if course.search.whole else "requests per second"
    frame = layout(
        xaxis={
            "title": {"text": "level, in the order tried"},
            "dtick": 1 if len(tried) < 20 else None,
            "zeroline": False,
        },
        yaxis={"title": {"text": axis}, "type": "log", "dtick": "D1" if len(tried) < 3 else None},
        shapes=_bracket(course),
    )
    return as_json(go.Figure([path, *(one for one in points if one is not None)], frame))


def _levels(said: Said, levels: Sequence[Level], places: Mapping[int, int]) -> go.Scatter | None:
    if not levels:
        return None
    name, hue, symbol = MARKS[said]
    return go.Scatter(
        x=[places[one.trial] for one in levels],
        y=[one.load for one in levels],
        mode="markers",
        name=name,
        marker={"color": hue, "symbol": symbol, "size": [8 + 2 * min(len(one.runs), 4) for one in levels]},
        customdata=[_level_words(one, name) for one in levels],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _level_words(level: Level, name: str) -> str:
    runs = f"{level.count(Said.PASSED)} of {level.judged} judged runs passed"
    return f"{level.load:g}: {name}<br>{runs}" + (f"<br>{plain(level.why)}" if level.why else "")


def _bracket(course: LoadCourse) -> list[dict[str, Any]]:
    """A band between the ends; without a breach a line that is the floor."""
    lower, upper = course.lower, course.upper
    if lower is None:
        return []
    across = {"xref": "paper", "x0": 0, "x1": 1, "y0": lower.load, "layer": "below"}
    if upper is None:
        return [{**across, "type": "line", "y1": lower.load, "line": {"color": HOLDS, "width": 1.5, "dash": "dot"}}]
    return [{**across, "type": "rect", "y1": upper.load, "fillcolor": faint(HOLDS, 0.25), "line": {"width": 0}}]


def best_figure(course: BestCourse) -> dict[str, Any]:
    """The figure of each trial in the order tried, and what the best and its runner-up are by their confirming runs."""
    unit = COMPARED[course.metric][0]
    found = [one for one in course.exploring.found if one.values is not None]
    largest = max((one.values[0] for one in found if one.values), default=None)
    scale = scale_for(unit, largest)
    traces = [
        _tried([one for one in found if one.holds is holds], lambda one: one.trial.index + 1, scale.factor, unit, holds)
        for holds in (True, False)
    ]
    rivals = [course.figure(one) | {"place": one.trial.index + 1} for one in course.rivals]
    if rivals:
        traces.append(
            go.Scatter(
                x=[one["place"] for one in rivals],
                y=[one["mean"] * scale.factor for one in rivals],
                mode="markers",
                name="confirmed",
                marker={"symbol": "diamond", "size": 12, "color": HUES[3]},
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": [((one["high"] or one["mean"]) - one["mean"]) * scale.factor for one in rivals],
                    "arrayminus": [(one["mean"] - (one["low"] or one["mean"])) * scale.factor for one in rivals],
                },
                hovertemplate="%{y:.4g}<extra>confirmed</extra>",
            )
        )
    frame = layout(
        xaxis={"title": {"text": "trial, in the order tried"}, "zeroline": False},
        yaxis={"title": {"text": f"{name_of(course.metric)}, {scale.unit}"}, "rangemode": "tozero"},
    )
    return as_json(go.Figure(traces, frame))


def front_figure(course: FrontCourse) -> dict[str, Any]:
    """The settings tried in both figures; those on the front are joined."""
    names = course.search.pareto.metrics
    found = [one for one in course.exploring.found if one.values is not None and len(one.values) == 2]
    scales = [
        scale_for(COMPARED[name][0], max((one.values[place] for one in found if one.values), default=None))
        for place, name in enumerate(names)
    ]
    by_id = {one.trial.id: one for one in found}
    front = [values for one in course.front if one in by_id and (values := by_id[one].values) is not None]
    unit = COMPARED[names[1]][0]
    traces = [
        _tried(
            [one for one in found if one.holds is holds],
            lambda one: one.values[0] * scales[0].factor if one.values else 0.0,
            scales[1].factor,
            unit,
            holds,
        )
        for holds in (True, False)
    ]
    dash = "dash" if _modelled(course.exploring.trials) else "solid"
    joined = go.Scatter(
        x=[one[0] * scales[0].factor for one in front],
        y=[one[1] * scales[1].factor for one in front],
        mode="lines",
        name="front",
        line={"color": LINE, "dash": dash},
        hoverinfo="skip",
    )
    axes = [{"title": {"text": f"{name_of(name)}, {scale.unit}"}} for name, scale in zip(names, scales, strict=True)]
    return as_json(go.Figure([joined, *traces], layout(xaxis=axes[0], yaxis=axes[1])))


def _tried(found: Sequence[Explored], x: Any, factor: float, unit: str, holds: bool) -> go.Scatter:
    return go.Scatter(
        x=[x(one) for one in found],
        y=[one.values[-1] * factor for one in found if one.values],
        mode="markers",
        name="may win" if holds else "invalid or not within the objective",
        marker={"color": HOLDS if holds else UNKNOWN, "symbol": "circle" if holds else "circle-open", "size": 8},
        customdata=[_tried_words(one, unit) for one in found],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _tried_words(one: Explored, unit: str) -> str:
    value = shown(one.values[-1], unit) if one.values else ""
    why = f"<br>{plain(one.why)}" if one.why else ""
    return f"{plain(settings_label(dict(one.trial.settings)))}<br>{value}, n = {one.n}{why}"


def _modelled(trials: Sequence[TrialSeen]) -> bool:
    return any(run.result is not None and run.result.modelled for one in trials for run in one.runs)
