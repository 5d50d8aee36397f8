"""Which of an experiment's searches its page draws: as the address says, or the first; and what all of them found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.analysis.compare import COMPARED
from experiments.figures.search import best_figure, front_figure, load_figure
from experiments.search.best import BestCourse
from experiments.search.front import FrontCourse
from experiments.search.load import LoadCourse
from experiments.search.planner import Planned
from experiments.search.seen import Course
from runners.display import settings_label

TITLES = {
    "load": "Highest load under the objective",
    "best": "Best settings",
    "front": "Settings that no other beats",
    "repeats": "Repeats until the interval is tight",
}


@dataclass(frozen=True)
class SearchPanel:
    """`rows` are all of the experiment's searches; `which` is the place of the one that is drawn."""

    kind: str
    title: str
    rows: Sequence[Mapping[str, Any]]
    modelled: bool
    which: int = 0
    choices: Sequence[str] = ()
    figure: Mapping[str, Any] | None = None
    shown: Mapping[str, Any] = field(default_factory=dict)


def search_panel(found: Planned | None, asked: Mapping[str, str], modelled: bool) -> SearchPanel | None:
    """The panel for `search` of the address; None where the experiment plans no runs itself."""
    if found is None or not found.courses:
        return None
    rows = [course.as_json() for course in found.courses]
    place = asked.get("search", "")
    known = place.isascii() and place.isdecimal() and len(place) < 4 and int(place) < len(rows)
    which = int(place) if known else 0
    labels = [settings_label(row.get("settings", {})) for row in rows] if len(rows) > 1 else []
    figure = _figure(found.courses[which])
    told = [_in_words(row) for row in rows]
    return SearchPanel(found.kind, TITLES[found.kind], told, modelled, which, labels, figure, told[which])


def _in_words(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """With loads as they stand in the document, and figures with their units."""
    if "levels" in row:
        loads = {key: None if row[key] is None else f"{row[key]:g}" for key in ("low", "high")}
        return {**row, **loads, "holds_above": [f"{load:g}" for load in row["holds_above"]]}
    if not row.get("best"):
        return row
    unit = COMPARED[row["metric"]][0]
    named = (("the best", row["best"]), ("its runner-up", row["runner_up"]))
    rivals = [(label, {**one, "median": one["mean"], "unit": unit}) for label, one in named if one]
    difference = {**row["difference"], "unit": unit} if row["difference"] else None
    return {**row, "rivals": rivals, "difference": difference}


def _figure(course: Course) -> Mapping[str, Any] | None:
    if isinstance(course, LoadCourse):
        return load_figure(course)
    if isinstance(course, BestCourse):
        return best_figure(course)
    return front_figure(course) if isinstance(course, FrontCourse) else None
