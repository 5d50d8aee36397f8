"""The whole experiment document."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import Document, Name, Setting, Slug, Tag, Text, values_differ
from runners.spec.design import DesignSpec
from runners.spec.engine import EngineSpec
from runners.spec.placement import PlacementSpec
from runners.spec.quality import QualitySpec
from runners.spec.search import RepeatsUntil, SearchSpec
from runners.spec.shape import ShapedModel
from runners.spec.slo import SloSpec
from runners.spec.workload import WorkloadSpec


class NodeSelector(Document):
    """Which nodes may run it: those that carry all the labels, or those named. `{}` means any node."""

    labels: dict[str, str] = Field(default_factory=dict, max_length=20)
    names: tuple[Slug, ...] = Field(default=(), max_length=100)

    @model_validator(mode="after")
    def labels_or_names(self) -> Self:
        if self.labels and self.names:
            raise PydanticCustomError("labels_or_names", "give labels or names, not both")
        return self


class CostSpec(Document):
    """What an hour costs: by the node's own price, or as given. What all chips draw together: as metered or modelled,
    or as given in watts; such figures are marked as assumed."""

    usd_per_hour: Literal["node"] | Annotated[float, Field(ge=0, le=1_000_000)] = "node"
    watts: Annotated[
        Literal["measured"] | Annotated[float, Field(gt=0, le=1e9)],
        BeforeValidator(lambda value: "measured" if value is None else value),
    ] = "measured"


class BudgetSpec(Document):
    """Limits of the whole experiment, and of one run (`max_run_seconds`), in seconds of the control plane's clock."""

    max_runs: int = Field(default=200, ge=1, le=2000)
    max_seconds: float = Field(default=7200, gt=0, le=604_800)
    max_run_seconds: float = Field(default=900, gt=0, le=86_400)


class ExperimentSpec(Document):
    """The whole document. `model` is a registered one, or a shape with random weights (by its name, or typed).
    `matrix` maps dotted paths to the values to compare; `design` says which combinations of them are trials.

    `allow_speculative` lets chips take part whose vendors have not disclosed all that a step needs: stand-ins of the
    catalog take those places, and the results say so.
    """

    name: Name
    question: Text = ""
    tags: tuple[Tag, ...] = Field(default=(), max_length=20)
    model: Slug | ShapedModel
    nodes: NodeSelector
    chip: Slug = "any"
    allow_speculative: bool = False
    engine: EngineSpec = EngineSpec()
    placement: PlacementSpec = PlacementSpec()
    workload: WorkloadSpec
    slo: SloSpec = SloSpec()
    quality: QualitySpec | None = None
    cost: CostSpec = CostSpec()
    matrix: Annotated[
        dict[str, Annotated[tuple[Setting, ...], Field(min_length=1, max_length=100)]], AfterValidator(values_differ)
    ] = Field(default_factory=dict, max_length=10)
    exclude: tuple[dict[str, Setting], ...] = Field(default=(), max_length=200)
    design: DesignSpec = "factorial"
    search: SearchSpec | None = None
    baseline: dict[str, Setting] = Field(default_factory=dict, max_length=10)
    repeats: Annotated[int, Field(ge=1, le=100)] | RepeatsUntil = 3
    order: Literal["interleaved"] = "interleaved"
    seed: int = Field(default=0, ge=0, lt=2**63)
    budget: BudgetSpec = BudgetSpec()
    retries: int = Field(default=1, ge=0, le=10)

    @property
    def first_repeats(self) -> int:
        """How many repeats of a trial there are in any case; of searches none, which say so themselves."""
        if self.search is not None:
            return 0
        return self.repeats.until.min if isinstance(self.repeats, RepeatsUntil) else self.repeats

    @property
    def most_repeats(self) -> int:
        """How many repeats of a trial there may be; of searches none."""
        if self.search is not None:
            return 0
        return self.repeats.until.max if isinstance(self.repeats, RepeatsUntil) else self.repeats

    @model_validator(mode="after")
    def prompt_fits_budget(self) -> Self:
        longest = self.workload.longest_prompt
        if not self.engine.scheduler.chunked_prefill and longest > self.engine.max_num_batched_tokens:
            raise PydanticCustomError(
                "impossible_combination",
                "without chunked prefill a prompt of {longest} tokens does not fit a step of {budget} tokens",
                {"field": "engine.max_num_batched_tokens", "longest": longest,
                 "budget": self.engine.max_num_batched_tokens, "allowed": f"at least {longest}"},
            )  # fmt: skip
        return self
