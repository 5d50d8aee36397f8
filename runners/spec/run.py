"""One run of an experiment, frozen: what a node gets when it claims."""

from __future__ import annotations

from typing import Any

from runners.spec.base import Document, Setting, Slug
from runners.spec.engine import EngineSpec
from runners.spec.experiment import CostSpec, SloSpec
from runners.spec.placement import PlacementSpec
from runners.spec.workload import WorkloadSpec


class ModelRef(Document):
    """The model as the registry knows it, frozen with the run: a node refuses a file with another hash.

    `entry` is the whole registered model (`runners.models.ModelEntry` as a mapping), so that a node needs no registry;
    without it the model is one that the lab ships.
    """

    name: Slug
    sha256: str
    shape: dict[str, Any]
    entry: dict[str, Any] | None = None


class RunSpec(Document):
    """One run, frozen when the experiment is submitted; what a node gets when it claims.

    `settings` are the trial's values by matrix path, already applied in `engine`, `workload`, `placement`. `chip` is
    the record of the chip that the node stands for (`ChipRecord` as a mapping), filled at the claim. `seed` is shared
    by the trials of one repeat, so that every setting meets the same requests.
    """

    run_id: int
    experiment_id: int
    trial_index: int
    repeat: int
    seed: int
    settings: dict[str, Setting]
    model: ModelRef
    chip_id: str
    chip: dict[str, Any] | None = None
    allow_speculative: bool = False
    engine: EngineSpec
    placement: PlacementSpec
    workload: WorkloadSpec
    slo: SloSpec
    cost: CostSpec
    usd_per_hour: float | None = None
    time_limit_s: float
    code_revision: str
