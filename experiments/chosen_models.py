"""What documents name at `model`, and as the model that drafts: a registered model, a published shape, or a typed one.

A name is that of a registered model first. Shapes run with random weights, and have neither files nor a tokenizer.
Reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from experiments.models import RegisteredModel
from experiments.registered import find_usable
from runners import shapes
from runners.document import FieldError, SpecError
from runners.models import REGISTRY
from runners.spec import ExperimentSpec, ModelRef, ShapedModel

ModelChoice = str | ShapedModel
NAMED = 50
RANDOM_WEIGHTS = "random weights"


@dataclass(frozen=True)
class ChosenModel:
    """`ref` is what a run is frozen with; `bytes` is the size of the model's files."""

    ref: ModelRef
    bytes: int = 0

    @property
    def name(self) -> str:
        return self.ref.name

    @property
    def sha256(self) -> str:
        return self.ref.sha256

    @property
    def shape(self) -> dict[str, Any]:
        return self.ref.shape

    @property
    def random_weights(self) -> bool:
        return self.ref.random_weights


def choices_of(spec: ExperimentSpec) -> set[ModelChoice]:
    """The model that a trial runs, and the one that drafts for it where one does."""
    draft = draft_of(spec)
    return {spec.model} | ({draft} if draft else set())


def draft_of(spec: ExperimentSpec) -> str | None:
    return spec.engine.speculation.model if spec.engine.speculation.kind == "draft" else None


def find_models(choices: Iterable[ModelChoice]) -> dict[ModelChoice, ChosenModel]:
    """Those of the choices that an experiment may use now. One query."""
    wanted = set(choices)
    found: dict[ModelChoice, ChosenModel] = {}
    for name, entry in find_usable(one for one in wanted if isinstance(one, str)).items():
        ref = ModelRef(name=entry.name, sha256=entry.sha256, shape=entry.shape, entry=entry.to_dict())
        found[name] = ChosenModel(ref, entry.bytes)
    for choice in wanted - found.keys():
        try:
            found[choice] = ChosenModel(shapes.resolve(choice).ref())
        except (shapes.UnknownShape, SpecError):
            continue  # `why_not` says it, at the field that the caller knows
    return found


def why_not(choice: ModelChoice, field: str = "model") -> list[FieldError]:
    """What to tell of a choice at `field` that `find_models` did not give."""
    try:
        shapes.resolve(choice)
    except SpecError as error:
        return error.errors
    except shapes.UnknownShape as error:
        registered = RegisteredModel.objects.filter(name=choice)
        message = f"no model is registered as {choice!r}, and no published shape has that name"
        if registered.exclude(retired_at=None).exists():
            message = f"model {choice!r} was retired"
        usable = RegisteredModel.objects.filter(retired_at=None).values_list("name", flat=True)[:NAMED]
        allowed = {"registered": sorted({*REGISTRY, *usable}), "shapes, with random weights": error.allowed}
        return [FieldError(field, message, allowed)]
    return []


def name_of(choice: ModelChoice) -> str:
    """Of a choice that `find_models` gives."""
    return choice if isinstance(choice, str) else shapes.resolve(choice).name


def workload_faults(spec: ExperimentSpec, model: ChosenModel) -> Iterator[FieldError]:
    """What a model without a tokenizer can't be asked, on any node."""
    if model.random_weights and spec.workload.kind in ("text", "tasks"):
        what = "a text needs" if spec.workload.kind == "text" else "a question needs"
        message = f"{what} a tokenizer, and {model.name} has none: it is a shape with random weights"
        yield FieldError("workload.kind", message, ["synthetic"])


def measured_faults(spec: ExperimentSpec, model: ChosenModel) -> Iterator[FieldError]:
    """Why a measured node can't make the model out of its shape, or tell its quality."""
    if model.random_weights and spec.quality is not None:
        message = f"{model.name} has no words and no answers: it is a shape with random weights"
        yield FieldError("quality", message, "null, or a registered model")
    refusal = shapes.why_not_measurable(model.shape) if model.random_weights else None
    if refusal is not None:
        field = "model" if isinstance(spec.model, str) else f"model.shape.{refusal.field}"
        yield FieldError(field, f"{model.name}: {refusal.message}", refusal.allowed)
