"""How an experiment's trials are laid out: every combination, one factor at a time, or one step upon another."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document, Name, Setting

MAX_STEPS = 20
BASE_LABEL = "baseline"
"""What the first rung of a ladder is called: the document before any of its steps."""


class LadderStep(Document):
    """A technique that is put on top of all before it: the values it sets, by dotted path."""

    label: Annotated[Name, Field(max_length=60)]
    set: Annotated[dict[str, Setting], Field(min_length=1, max_length=10)]


class LadderDesign(Document):
    """Trials that stack techniques in order: the document as it is, then with the first step, then with the first two,
    and so on. With a matrix there is one such ladder for each of its combinations."""

    kind: Literal["ladder"]
    steps: Annotated[tuple[LadderStep, ...], Field(min_length=1, max_length=MAX_STEPS)]

    @model_validator(mode="after")
    def labels_differ(self) -> Self:
        labels = [BASE_LABEL, *(step.label for step in self.steps)]
        for place, label in enumerate(labels[1:], start=1):
            if label in labels[:place]:
                raise PydanticCustomError(
                    "repeated_label", "two rungs are called {label}",
                    {"field": f"steps.{place - 1}.label", "label": label, "allowed": "a name of its own"},
                )  # fmt: skip
        return self

    @property
    def paths(self) -> tuple[str, ...]:
        """All that any step sets, in the order in which they come."""
        return tuple(dict.fromkeys(path for step in self.steps for path in step.set))


DesignSpec = Literal["factorial", "one_at_a_time"] | LadderDesign
