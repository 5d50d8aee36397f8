"""How an experiment decides on its runs, as the form draws it."""

from __future__ import annotations

from experiments.analysis.compare import COMPARED
from experiments.form.drawing import Drawing
from experiments.form.parts import Field, Option
from experiments.form.planning import BEST, FRONT, LOAD, UNTIL, kind_of_planning
from runners.display import name_of

WORDS = {
    UNTIL: "repeated until an interval is tight",
    LOAD: "a search for the highest load",
    BEST: "a search for the best settings",
    FRONT: "a search for the Pareto front",
}
FIELDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    UNTIL: (
        ("repeats.until.interval", "Half-width at most, of the mean", ""),
        ("repeats.until.min", "Repeats at least", "5"),
        ("repeats.until.max", "Repeats at most", ""),
    ),
    LOAD: (
        ("search.low", "From a load of", ""),
        ("search.high", "Up to", ""),
        ("search.tolerance", "Bracket, of its lower end", "0.05"),
        ("search.confirm", "Runs at each end", "3"),
        ("search.min_success", "Requests ok, at least", "0.95"),
    ),
    BEST: (
        ("search.trials", "Settings to try", "30"),
        ("search.repeats", "Runs of each", "1"),
        ("search.confirm", "Confirming runs", "3"),
    ),
    FRONT: (("search.pareto.trials", "Settings to try", "30"), ("search.pareto.repeats", "Runs of each", "1")),
}
METRICS = {UNTIL: "repeats.until.metric", BEST: "search.optimize"}
SPACES = {BEST: "search.space", FRONT: "search.pareto.space"}


def draw_planning(drawing: Drawing) -> list[Field]:
    """Which way, then what it needs; of a plain experiment the number of its repeats."""
    kind = kind_of_planning(drawing.document)
    ways = tuple(Option(name, words) for name, words in WORDS.items())
    way = drawing.field(
        "planning:", "search", "Runs are", value=kind, options=ways, default="repeated as often as given"
    )
    if not kind:
        return [way, drawing.setting("repeats", "Repeats")]
    fields = [way, *([_metric(drawing, kind)] if kind in METRICS else [])]
    fields += [drawing.field(f"planned:{path}", path, label, default=usual) for path, label, usual in FIELDS[kind]]
    if kind in SPACES:
        fields.append(drawing.field(f"planned:{SPACES[kind]}", SPACES[kind], "Values to try"))
    return fields


def _metric(drawing: Drawing, kind: str) -> Field:
    names = [name for name, (_, better) in COMPARED.items() if better is not None or kind == UNTIL]
    options = tuple(Option(name, name_of(name)) for name in names)
    return drawing.field(f"planned:{METRICS[kind]}", METRICS[kind], "Figure", options=options)
