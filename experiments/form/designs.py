"""What the form's controls of an experiment's design do to the document: another design, or a ladder's steps.

A step's values are typed as `path = value`, parted by commas. What can't be read so is kept as text, which the check of
the document then refuses at the step's field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.form.rewrite import REMOVED, Change
from experiments.form.scalars import scalar
from runners.display import setting_value

LADDER = "ladder"
FACTORIAL = "factorial"
DESIGN = ("design",)

Document = Mapping[str, Any]


def kind_of_design(document: Document) -> str:
    said = document.get("design")
    if isinstance(said, Mapping):
        said = said.get("kind")
    return said if isinstance(said, str) else FACTORIAL


def set_design(rest: str, value: str, document: Document) -> list[Change]:
    """Another design; a ladder's steps go with it."""
    if value == LADDER:
        return [] if kind_of_design(document) == LADDER else [Change(DESIGN, {"kind": LADDER, "steps": []})]
    return [Change(DESIGN, value or REMOVED)]


def set_label(place: str, value: str, document: Document) -> list[Change]:
    return _change(place, document, lambda step: step | {"label": value.strip()})


def set_values(place: str, value: str, document: Document) -> list[Change]:
    """Emptied, the step goes."""
    if not value.strip():
        return remove_step(place, "", document)
    return _change(place, document, lambda step: step | {"set": values_of(value)})


def remove_step(place: str, value: str, document: Document) -> list[Change]:
    return _with_steps([step for at, step in enumerate(steps_of(document)) if str(at) != place])


def add_step(rest: str, value: str, document: Document, start: Any) -> list[Change]:
    """One step more, which sets the path `value` to `start`; called after the end of its path."""
    if not value:
        return []
    taken = {step.get("label") for step in steps_of(document)}
    name = label = value.rpartition(".")[2].replace("_", " ")
    number = 2
    while label in taken:
        label, number = f"{name} {number}", number + 1
    return _with_steps([*steps_of(document), {"label": label, "set": {value: start}}])


def values_of(text: str) -> Any:
    """`engine.weights = int8, engine.max_num_seqs = 32` as a mapping; the text itself where it is none."""
    values: dict[str, Any] = {}
    for part in text.split(","):
        path, equals, value = part.partition("=")
        if not equals or not path.strip():
            return text
        values[path.strip()] = scalar(value)
    return values


def shown_values(found: Any) -> str:
    if not isinstance(found, Mapping):
        return "" if found is None else str(found)
    return ", ".join(f"{path} = {setting_value(value)}" for path, value in found.items())


def steps_of(document: Document) -> list[dict[str, Any]]:
    """Those that are mappings; what else a list of steps holds is for the text to show."""
    design = document.get("design")
    steps = design.get("steps") if isinstance(design, Mapping) else None
    return [dict(step) for step in steps if isinstance(step, Mapping)] if isinstance(steps, list) else []


def _change(place: str, document: Document, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> list[Change]:
    return _with_steps([changed(step) if str(at) == place else step for at, step in enumerate(steps_of(document))])


def _with_steps(steps: list[dict[str, Any]]) -> list[Change]:
    return [Change(DESIGN, {"kind": LADDER, "steps": steps})]
