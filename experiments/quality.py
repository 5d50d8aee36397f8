"""What runs measured of their answers, as pages show it: a row for a trial, each figure with its own interval.

A text's figures are equal in every repeat, so a trial shows those of its first run that has them; answers of all its
runs are counted together. Validity of their speed does not matter here: quality is told apart from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from experiments.models import Run
from experiments.selectors import TrialWithRuns
from runners.display import digits, settings_label, shown
from runners.quality_figures import (
    RESCALED_METRICS,
    TEXT_METRICS,
    Figure,
    QualityFacts,
    TextQuality,
    floor_breaches,
    share,
)
from runners.spec import FloorSpec

COLUMNS = (*TEXT_METRICS, "accuracy")


@dataclass(frozen=True)
class Cell:
    """One figure as text; `off_grid` is the same of the weights rescaled off their file's grid."""

    value: str
    interval: str
    about: str
    off_grid: str = ""
    off_grid_interval: str = ""


@dataclass(frozen=True)
class QualityRow:
    """One trial or run; `cells` by metric. `breaches` say which figures broke the floor, `missing` what was asked for
    and not measured."""

    label: str
    model: str
    reference: str
    quantised: str
    cells: Mapping[str, Cell]
    tasks: tuple[str, ...]
    breaches: tuple[str, ...]
    missing: tuple[str, ...]
    cached: bool
    method: Mapping[str, Any]
    has_floor: bool


def quality_of(run: Run) -> QualityFacts | None:
    """None of a run whose quality was not asked for, or that has no results yet."""
    stored = (run.summary or {}).get("quality")
    if not stored:
        return None
    try:
        return QualityFacts.model_validate(stored)
    except ValidationError:
        return None


def run_quality(run: Run) -> QualityRow | None:
    found = quality_of(run)
    return None if found is None else _row(str(run.spec["engine"]["weights"]), run, found)


def trial_quality(entries: Iterable[TrialWithRuns], *, names: Mapping[int, str] | None = None) -> list[QualityRow]:
    """The trials that measured any, in order; `names` are labels by trial, else its settings."""
    rows = []
    for entry in entries:
        found = [(one.run, facts) for one in entry.runs if (facts := quality_of(one.run)) is not None]
        if found:
            label = (names or {}).get(entry.trial.pk) or entry.trial.label or settings_label(entry.trial.settings)
            run, facts = next((one for one in found if one[1].text is not None), found[0])
            rows.append(_row(label, run, _pooled(facts, [one for _, one in found])))
    return rows


def quality_panel(rows: list[QualityRow], *, of_trials: bool) -> dict[str, Any]:
    """What the panel of some rows needs; nothing is shown without rows."""
    return {
        "quality_rows": rows,
        "quality_of_trials": of_trials,
        "quality_columns": [name for name in COLUMNS if any(name in row.cells for row in rows)],
        "quality_labels": sorted({row.quantised for row in rows if row.quantised}),
        "quality_models": sorted({row.model for row in rows}),
    }


def _pooled(facts: QualityFacts, every: list[QualityFacts]) -> QualityFacts:
    """`facts` with the answers of all runs counted together."""
    tasks = {}
    for name in dict.fromkeys(name for one in every for name in one.tasks):
        counted = [one.tasks[name] for one in every if name in one.tasks]
        asked, correct = sum(one.asked for one in counted), sum(one.correct for one in counted)
        if asked:
            tasks[name] = counted[0].model_copy(
                update={"asked": asked, "correct": correct, "accuracy": share(correct, asked)}
            )
    missing = tuple(dict.fromkeys(why for one in every for why in one.not_measured))
    return facts.model_copy(update={"tasks": tasks, "not_measured": missing})


def _row(label: str, run: Run, facts: QualityFacts) -> QualityRow:
    asked = run.spec.get("quality") or {}
    floor = FloorSpec.model_validate(asked.get("floor") or {})
    reference = facts.reference
    return QualityRow(
        label=label,
        model=str(run.spec["model"]["name"]),
        reference=reference.weights if reference else "",
        quantised=(reference.label or "") if reference else "",
        cells=_cells(facts),
        tasks=tuple(f"{name.replace('_', ' ')} {task.correct} of {task.asked}" for name, task in facts.tasks.items()),
        breaches=tuple(breach.message for breach in floor_breaches(facts, floor)),
        missing=facts.not_measured,
        cached=facts.cached,
        method=facts.method,
        has_floor=bool(floor.bounds()),
    )


def _cells(facts: QualityFacts) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    if facts.text is not None:
        cells = {name: _text_cell(name, facts.text, facts.rescaled) for name in TEXT_METRICS}
    if facts.accuracy is not None:
        cells["accuracy"] = _cell(facts.accuracy, "share", "questions")
    return cells


def _text_cell(name: str, text: TextQuality, rescaled: TextQuality | None) -> Cell:
    cell = _cell(getattr(text, name), TEXT_METRICS[name], "windows of the text")
    if rescaled is None or name not in RESCALED_METRICS:
        return cell
    again = _cell(getattr(rescaled, name), TEXT_METRICS[name], "")
    return Cell(cell.value, cell.interval, cell.about, again.value, again.interval)


def _cell(figure: Figure, unit: str, counted: str) -> Cell:
    return Cell(shown(figure.value, unit), _interval(figure, unit), f"95 % interval over {figure.n} {counted}")


def _interval(figure: Figure, unit: str) -> str:
    if figure.low is None or figure.high is None:
        return ""
    factor = 100 if unit == "share" else 1
    return f"{digits(figure.low * factor)} – {digits(figure.high * factor)}"
