"""What a drawn form is made of: groups of fields with their values, and the axes of the matrix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """`group` is the heading under which it is offered, where there are several."""

    value: str
    label: str
    group: str = ""


@dataclass(frozen=True)
class Field:
    """`state` says why it can't be changed here: it is an axis (`compared`), or written otherwise (`text`)."""

    name: str
    path: str
    label: str
    value: str = ""
    options: tuple[Option, ...] = ()
    unit: str = ""
    default: str = ""
    state: str = ""
    wide: bool = False
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Axis:
    path: str
    values: str
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """A step of a ladder; `place` is its number among the steps, from 0."""

    place: int
    label: str
    values: str
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Design:
    """How trials are laid out. `addable` are the paths that a new step may set."""

    field: Field
    note: str
    steps: tuple[Step, ...] = ()
    addable: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def is_ladder(self) -> bool:
        return self.field.value == "ladder"

    @property
    def controls(self) -> list[Field]:
        labels = [Field(f"step-label:{step.place}", "design", step.label, step.label) for step in self.steps]
        values = [Field(f"step-set:{step.place}", "design", step.label, step.values) for step in self.steps]
        adding = [Field("step-add:", "design", "")] if self.is_ladder else []
        return [self.field, *labels, *values, *adding]


@dataclass(frozen=True)
class Group:
    """With an `id` it can be folded, and is open where `touched`: the document or a fault says something of it."""

    title: str
    fields: tuple[Field, ...]
    note: str = ""
    in_pairs: bool = False
    id: str = ""
    touched: bool = False


@dataclass(frozen=True)
class Form:
    """`readable` is False where the text is no mapping, so that there is nothing to show."""

    groups: tuple[Group, ...] = ()
    axes: tuple[Axis, ...] = ()
    addable: tuple[str, ...] = ()
    design: Design | None = None
    readable: bool = True

    @property
    def controls(self) -> list[Field]:
        """Every control that a browser sends, those of the axes among them."""
        fields = [field for group in self.groups for field in group.fields]
        axes = [Field(f"axis:{axis.path}", axis.path, axis.path, axis.values) for axis in self.axes]
        design = [] if self.design is None else self.design.controls
        return [*fields, *axes, Field("axis-add:", "matrix", ""), *design]
