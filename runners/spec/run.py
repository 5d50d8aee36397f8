"""One run of an experiment, frozen: what a node gets when it claims."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from runners.spec.base import Document, Setting, Slug
from runners.spec.engine import EngineSpec
from runners.spec.experiment import CostSpec
from runners.spec.placement import PlacementSpec
from runners.spec.quality import QualitySpec
from runners.spec.slo import SloSpec
from runners.spec.trace import TraceRef
from runners.spec.workload import WorkloadSpec


class ModelRef(Document):
    """The model as the registry knows it, frozen with the run: a node refuses a file with another hash.

    `entry` is the whole registered model (`runners.models.ModelEntry` as a mapping), so that a node needs no registry;
    without it the model is one that the lab ships. A model of `random_weights` is its shape alone, and has no file.
    """

    name: Slug
    sha256: str
    shape: dict[str, Any]
    entry: dict[str, Any] | None = None
    random_weights: bool = False


class NodeLink(Document):
    """What joins two kinds of chips of a node: one direction, of one chip; both ends may be of one kind."""

    between: tuple[Slug, Slug]
    bytes_per_s: float = Field(gt=0, le=1e16)
    latency_s: float = Field(default=0.0, ge=0, le=10)


class RunSpec(Document):
    """One run, frozen when the experiment is submitted; what a node gets when it claims.

    `settings` are the trial's values by matrix path, already applied in `engine`, `workload`, `placement`. `chip` is
    the record of the chip that the run is on (`ChipRecord` as a mapping), `chips` the records of all that its placement
    names, by id, and `links` those that the node states between them; all are filled at the claim. `chip_counts` says
    how many of which chips the placement takes, as counted when it was submitted: of every chip that it names, or where
    `chip_id` is any, of each chip that can run it alone. `draft` is the model that drafts. `seed` is shared by the
    trials of one repeat, so that every setting meets the same requests. `trace` is the one that the workload replays.
    """

    run_id: int
    experiment_id: int
    trial_index: int
    repeat: int
    seed: int
    settings: dict[str, Setting]
    model: ModelRef
    draft: ModelRef | None = None
    chip_id: str
    chip: dict[str, Any] | None = None
    chips: dict[str, dict[str, Any]] = Field(default_factory=dict)
    links: tuple[NodeLink, ...] = ()
    chip_counts: dict[str, int] = Field(default_factory=dict)
    allow_speculative: bool = False
    engine: EngineSpec
    placement: PlacementSpec
    workload: WorkloadSpec
    trace: TraceRef | None = None
    slo: SloSpec
    cost: CostSpec
    quality: QualitySpec | None = None
    usd_per_hour: float | None = None
    time_limit_s: float
    code_revision: str

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and its output together; a trace's are clipped to what the model takes."""
        if self.trace is None:
            return self.workload.longest
        return min(self.trace.extent.longest, int(self.model.shape["max_model_len"]))
