"""The experiment document as types: what a person writes, the API takes, the database freezes and a node reads.

Units are in the names, unknown keys are errors, and every model is frozen. This package holds shapes and rules that one
document can show by itself; turning text into a document is `runners.document`, expanding its matrix is
`runners.matrix`. Whether a model, chip or node exists is for the control plane to say.
"""

from __future__ import annotations

from runners.spec.base import Document, Name, Setting, Slug, Tag, Text
from runners.spec.design import DesignSpec, LadderDesign, LadderStep
from runners.spec.engine import EngineSpec, PrefixTiers, SchedulerSpec, SpeculationSpec, TierSpec
from runners.spec.experiment import BudgetSpec, CostSpec, ExperimentSpec, NodeSelector, SloSpec
from runners.spec.placement import DisaggregateSpec, Layout, LinkSpec, PlacementSpec, PoolSpec, RouterSpec
from runners.spec.run import ModelRef, NodeLink, RunSpec
from runners.spec.search import LoadSearch, ParetoSearch, Range, RepeatsUntil, SearchSpec, SettingsSearch, Until
from runners.spec.shape import ShapedModel, ShapeSpec
from runners.spec.workload import (
    ArrivalSpec,
    ClosedArrival,
    FixedLen,
    LengthSpec,
    LognormalLen,
    OpenArrival,
    SamplingSpec,
    SharedPrefixSpec,
    UniformLen,
    WarmupSpec,
    WorkloadSpec,
)

__all__ = [
    "ArrivalSpec",
    "BudgetSpec",
    "ClosedArrival",
    "CostSpec",
    "DesignSpec",
    "DisaggregateSpec",
    "Document",
    "EngineSpec",
    "ExperimentSpec",
    "FixedLen",
    "LadderDesign",
    "LadderStep",
    "Layout",
    "LengthSpec",
    "LinkSpec",
    "LoadSearch",
    "LognormalLen",
    "ModelRef",
    "Name",
    "NodeLink",
    "NodeSelector",
    "OpenArrival",
    "ParetoSearch",
    "PlacementSpec",
    "PoolSpec",
    "PrefixTiers",
    "Range",
    "RepeatsUntil",
    "RouterSpec",
    "RunSpec",
    "SamplingSpec",
    "SchedulerSpec",
    "SearchSpec",
    "Setting",
    "SettingsSearch",
    "ShapeSpec",
    "ShapedModel",
    "SharedPrefixSpec",
    "SloSpec",
    "Slug",
    "SpeculationSpec",
    "Tag",
    "Text",
    "TierSpec",
    "UniformLen",
    "Until",
    "WarmupSpec",
    "WorkloadSpec",
]
