"""How right the answers must be: what a run's quality is measured on, against which reference, and its floor.

Quality is measured, by computing with the model's own weights and by asking the run's server: a modelled run has none.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document

TaskName = Literal["arithmetic", "multiple_choice", "json_schema"]


class ReferenceSpec(Document):
    """What the text's figures are held against: the same model, its file's weights computed with as they are read."""

    weights: Literal["bf16"] = "bf16"


class FloorSpec(Document):
    """Bounds that a run must keep: at most so much perplexity over the reference's (a ratio) and KL divergence (nats
    per token), at least so much top-1 agreement and accuracy (shares)."""

    perplexity_ratio: float | None = Field(default=None, ge=1, le=1000)
    kl_divergence: float | None = Field(default=None, gt=0, le=100)
    top1_agreement: float | None = Field(default=None, ge=0, le=1)
    accuracy: float | None = Field(default=None, ge=0, le=1)

    def bounds(self) -> dict[str, float]:
        """Those that are given, by the figure's name."""
        named = {name: getattr(self, name) for name in ("perplexity_ratio", "kl_divergence", *AT_LEAST)}
        return {name: bound for name, bound in named.items() if bound is not None}


AT_LEAST = ("top1_agreement", "accuracy")
"""The figures whose bound is a lower one."""


class QualitySpec(Document):
    """`text` is scored in `num_windows` windows of `window_tokens`, spread over it; the second half of each is scored
    given the first. Each task asks `num_questions`, drawn by the experiment's seed. Both come after a run's load."""

    text: Literal["shipped"] | None = "shipped"
    window_tokens: int = Field(default=512, ge=32, le=8192)
    num_windows: int = Field(default=8, ge=2, le=256)
    tasks: Annotated[tuple[TaskName, ...], Field(max_length=3)] = ()
    num_questions: int = Field(default=40, ge=1, le=1000)
    reference: ReferenceSpec = ReferenceSpec()
    floor: FloorSpec = FloorSpec()

    @model_validator(mode="after")
    def tasks_differ(self) -> Self:
        if len(set(self.tasks)) < len(self.tasks):
            raise PydanticCustomError(
                "repeated_value", "a task is listed twice", {"field": "tasks", "allowed": "each task once"}
            )
        return self

    @model_validator(mode="after")
    def floor_is_measured(self) -> Self:
        for name in self.floor.bounds():
            part, there = ("tasks", bool(self.tasks)) if name == "accuracy" else ("text", self.text is not None)
            if not there:
                raise PydanticCustomError(
                    "needed", "a floor of {name} needs {part}",
                    {"field": f"floor.{name}", "name": name, "part": part,
                     "allowed": "null, or a task in tasks" if part == "tasks" else "null, or text: shipped"},
                )  # fmt: skip
        return self

    @model_validator(mode="after")
    def measures_something(self) -> Self:
        if self.text is None and not self.tasks:
            raise PydanticCustomError(
                "needed", "neither text nor tasks: nothing would be measured",
                {"field": "text", "allowed": "shipped, or a task in tasks"},
            )  # fmt: skip
        return self
