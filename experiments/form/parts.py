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
    readable: bool = True

    @property
    def controls(self) -> list[Field]:
        """Every control that a browser sends, those of the axes among them."""
        fields = [field for group in self.groups for field in group.fields]
        axes = [Field(f"axis:{axis.path}", axis.path, axis.path, axis.values) for axis in self.axes]
        return [*fields, *axes, Field("axis-add:", "matrix", "")]
