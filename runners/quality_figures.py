"""What a run reports of its quality, as figures with intervals, and whether it keeps the floor. Pure.

Intervals are over the text's windows (t) and over the questions (Wilson): how well this text and these questions tell,
not how much repeats differ. Measuring is for runners.quality; here its report is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runners.events import Report
from runners.spec import FloorSpec
from runners.spec.quality import AT_LEAST

Z_95 = 1.959963984540054

TEXT_METRICS = {
    "perplexity": "",
    "bits_per_byte": "bit/byte",
    "perplexity_ratio": "",
    "kl_divergence": "nat/tok",
    "top1_agreement": "share",
}
"""The text's figures by name, with their units. Perplexities compare within one tokenizer alone, bits per byte beyond
it."""

RESCALED_METRICS = ("perplexity_ratio", "kl_divergence", "top1_agreement")
"""Those that are told again of the weights off their grid, as `<name>_rescaled`."""


MAX_PARTS = 64
Word = Annotated[str, Field(max_length=100)]
Words = Annotated[str, Field(max_length=1000)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Figure(Part):
    """`low` and `high` bound it with 95 % confidence, null where `n` is too small to say."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = Field(ge=0)


class Reference(Part):
    """What the text's figures are held against. `types` counts the values of the file's matrices by type; `label` is
    there where most of them are quantised already: "Q4_1"."""

    weights: Word
    label: Word | None = None
    types: dict[Word, int] = Field(default_factory=dict, max_length=MAX_PARTS)


class TextQuality(Part):
    """`n` of each figure counts windows; `scored_tokens` and `scored_bytes` are what they rest on."""

    perplexity: Figure
    bits_per_byte: Figure
    perplexity_ratio: Figure
    kl_divergence: Figure
    top1_agreement: Figure
    scored_tokens: int
    scored_bytes: int


class TaskQuality(Part):
    """Of one task: questions asked, answers that were right, and their share with Wilson's interval."""

    asked: int = Field(ge=0)
    correct: int = Field(ge=0)
    accuracy: Figure


class QualityFacts(Part):
    """The `quality` of a report's facts. `not_measured` says why a part that was asked for is missing."""

    reference: Reference | None = None
    text: TextQuality | None = None
    rescaled: TextQuality | None = None
    tasks: dict[Word, TaskQuality] = Field(default_factory=dict, max_length=MAX_PARTS)
    not_measured: Annotated[tuple[Words, ...], Field(max_length=MAX_PARTS)] = ()
    cached: bool = False
    method: dict[Word, Words | int | float | None] = Field(default_factory=dict, max_length=MAX_PARTS)

    @property
    def accuracy(self) -> Figure | None:
        """Over the questions of all tasks together."""
        asked = sum(task.asked for task in self.tasks.values())
        return share(sum(task.correct for task in self.tasks.values()), asked) if asked else None


def not_measured(*reasons: str) -> dict[str, Any]:
    """What a run reports that measured nothing of its quality."""
    return QualityFacts(not_measured=reasons).model_dump(mode="json")


def read_quality(report: Report) -> QualityFacts | None:
    """None of a run that reports none. What a node reports that is no quality counts as none."""
    told = report.facts.get("quality")
    if not isinstance(told, dict):
        return None
    try:
        return QualityFacts.model_validate(told)
    except ValidationError:
        return None


def quality_figures(facts: QualityFacts) -> dict[str, tuple[Figure, str]]:
    """Every figure by its metric's name, with its unit."""
    found: dict[str, tuple[Figure, str]] = {}
    if facts.text is not None:
        found |= {name: (getattr(facts.text, name), unit) for name, unit in TEXT_METRICS.items()}
    if facts.rescaled is not None:
        again = {name: getattr(facts.rescaled, name) for name in RESCALED_METRICS}
        found |= {f"{name}_rescaled": (figure, TEXT_METRICS[name]) for name, figure in again.items()}
    if facts.accuracy is not None:
        found["accuracy"] = (facts.accuracy, "share")
    return found


@dataclass(frozen=True)
class Breach:
    """A figure beyond its bound."""

    name: str
    figure: Figure
    bound: float

    @property
    def message(self) -> str:
        side = "below" if self.name.removesuffix("_rescaled") in AT_LEAST else "above"
        interval = "" if self.figure.low is None else f" (95 % interval {self.figure.low:.3g} … {self.figure.high:.3g})"
        shown = self.name.removesuffix("_rescaled").replace("_", " ").replace("kl", "KL").replace("top1", "top-1")
        off = ", with the weights rescaled off their grid," if self.name.endswith("_rescaled") else ""
        return f"{shown}{off} is {self.figure.value:.4g}{interval}, {side} the floor of {self.bound:g}"


def floor_breaches(facts: QualityFacts, floor: FloorSpec) -> Iterator[Breach]:
    """Every figure that breaks its bound; those told of the rescaled weights are held to the same bound."""
    figures = quality_figures(facts)
    for name, bound in floor.bounds().items():
        for told in (name, f"{name}_rescaled"):
            if told in figures:
                figure = figures[told][0]
                if figure.value < bound if name in AT_LEAST else figure.value > bound:
                    yield Breach(told, figure, bound)


def share(count: int, of: int) -> Figure:
    """A share with Wilson's score interval (Wilson 1927), which holds for few and for extreme counts. `of` ≥ 1."""
    p, z2 = count / of, Z_95**2
    centre = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = Z_95 / (1 + z2 / of) * math.sqrt(p * (1 - p) / of + z2 / (4 * of**2))
    low = 0.0 if count == 0 else centre - half
    high = 1.0 if count == of else centre + half
    return Figure(value=p, low=low, high=high, n=of)
