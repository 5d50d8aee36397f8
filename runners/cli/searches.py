"""What an experiment that plans its own next runs has found, for a terminal. Nothing is computed here."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from runners.cli.client import Json
from runners.cli.tables import experiment_view, line, table
from runners.display import digits, name_of, settings_label

LOAD_HEADINGS = ("Settings", "Holds", "Passed", "Breached at", "Passed there", "Levels tried", "State")
TIGHT_HEADINGS = ("Settings", "Half-width", "Asked for", "n", "Enough")


def whole_view(experiment: Json) -> RenderableType:
    """An experiment with its runs, and with its searches where it plans its own runs."""
    search = experiment.get("search")
    if not search:
        return experiment_view(experiment)
    said = [Text("modelled: the levels, figures and choices below rest on a cost model")] if search["modelled"] else []
    return Group(experiment_view(experiment), Text(), *said, VIEWS[search["kind"]](search[search["kind"]]))


def _loads(courses: list[Json]) -> RenderableType:
    rows = [
        (settings_label(one["settings"]), _floor(one), _counted(one["confirmed"]), _load(one["high"]),
         _counted(one["breach"]), len(one["levels"]), "done" if one["done"] else "searching")
        for one in courses
    ]  # fmt: skip
    return Group(_title("Highest load under the objective"), table(LOAD_HEADINGS, rows, LOAD_HEADINGS[1:6]))


def _floor(course: Json) -> str:
    """Where no breach was measured, it is no more than a floor."""
    return ("at least " if course["low"] is not None and course["high"] is None else "") + _load(course["low"])


def _load(load: float | None) -> str:
    return "–" if load is None else f"{load:g}"


def _counted(count: Json | None) -> str:
    return f"{count['passed']} of {count['of']}" if count else "–"


def _bests(courses: list[Json]) -> RenderableType:
    parts: list[RenderableType] = []
    for one in courses:
        parts += [_title(f"Best {name_of(one['metric'])}: {settings_label(one['settings'])}"), Text(line(one["said"]))]
        rivals = [(label, one[key]) for label, key in (("best", "best"), ("runner-up", "runner_up")) if one[key]]
        rows = [
            (label, settings_label(rival["settings"]), digits(rival["mean"]), _interval(rival), rival["n"],
             "modelled" if rival["modelled"] else "measured")
            for label, rival in rivals
        ]  # fmt: skip
        if rows:
            parts.append(table(("", "Settings", "Mean", "Interval", "n", "Node"), rows, ("Mean", "Interval", "n")))
        if one["difference"]:
            parts.append(Text(line(_lead(one["difference"]))))
    return Group(*parts)


def _lead(row: Json) -> str:
    floor = "unknown" if row["noise_floor"] is None else f"{row['noise_floor']:.1%}"
    difference = f"difference {digits(row['difference'])} {_interval(row)}"
    return f"{difference}, noise floor {floor}, n = {row['n']}: {row['verdict']}"


def _interval(row: Json) -> str:
    if row["low"] is None or row["high"] is None:
        return "no interval"
    return f"[{digits(row['low'])}, {digits(row['high'])}]"


def _fronts(courses: list[Json]) -> RenderableType:
    parts: list[RenderableType] = []
    for one in courses:
        on = [tried for tried in one["tried"] if tried["trial"] in one["front"] and tried["values"]]
        rows = [(settings_label(tried["settings"]), *map(digits, tried["values"]), tried["n"]) for tried in on]
        headings = ("Settings", *map(name_of, one["metrics"]), "n")
        title = f"Front: {settings_label(one['settings'])}"
        parts += [_title(title), Text(line(one["said"])), table(headings, rows, headings[1:])]
    return Group(*parts)


def _repeats(courses: list[Json]) -> RenderableType:
    parts: list[RenderableType] = []
    for one in courses:
        rows = [
            (settings_label(trial["settings"]) + (", modelled" if trial["modelled"] else ""),
             "–" if trial["half_width"] is None else f"±{trial['half_width']:.1%}", f"±{one['interval']:.1%}",
             trial["n"], "yes" if trial["enough"] else "not yet")
            for trial in one["trials"]
        ]  # fmt: skip
        title = f"Repeats until {name_of(one['metric'])} is tight"
        parts += [_title(title), Text(line(one["said"])), table(TIGHT_HEADINGS, rows, TIGHT_HEADINGS[1:4])]
    return Group(*parts)


def _title(text: str) -> Text:
    return Text(line(text), style="bold")


VIEWS = {"load": _loads, "best": _bests, "front": _fronts, "repeats": _repeats}
