"""An experiment's design as the form draws it: one of the plain ones, or a ladder with its steps as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.form.designs import FACTORIAL, LADDER, kind_of_design, shown_values, steps_of
from experiments.form.drawing import Drawing
from experiments.form.parts import Design, Option, Step
from runners.document import FieldError

NOTES = {
    FACTORIAL: "every combination of these values is a trial",
    "one_at_a_time": "each trial changes one of these values from the baseline",
    LADDER: "each step is a trial with all steps before it",
}
WORDS = {"one_at_a_time": "one factor at a time", LADDER: "a ladder of steps"}


def draw_design(drawing: Drawing, addable: Sequence[str], faults: Sequence[FieldError]) -> Design:
    kind = kind_of_design(drawing.document)
    options = tuple(Option(name, words) for name, words in WORDS.items())
    value = "" if kind == FACTORIAL else kind
    field = drawing.field(
        "design:", "design", "Trials are", value=value, options=options, default="every combination", state=""
    )
    if kind != LADDER:
        return Design(field, NOTES.get(kind, NOTES[FACTORIAL]))
    steps = tuple(_step(place, step, faults) for place, step in enumerate(steps_of(drawing.document)))
    errors = tuple(fault.message for fault in faults if fault.field == "design.steps")
    return Design(field, NOTES[LADDER], steps, tuple(addable), errors)


def _step(place: int, step: Mapping[str, Any], faults: Sequence[FieldError]) -> Step:
    at = f"design.steps.{place}"
    errors = tuple(
        f"{fault.field.removeprefix(at).lstrip('.').removeprefix('set.') or 'step'}: {fault.message}"
        for fault in faults
        if fault.field == at or fault.field.startswith(f"{at}.")
    )
    label = step.get("label")
    return Step(place, "" if label is None else str(label), shown_values(step.get("set")), errors)
