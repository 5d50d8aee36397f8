"""The experiment document as types: what a person writes, the API takes, the database freezes and a node reads.

Units are in the names, unknown keys are errors, and every model is frozen. This package holds shapes and rules that one
document can show by itself; turning text into a document is `runners.document`, expanding its matrix is
`runners.matrix`. Whether a model, chip or node exists is for the control plane to say.
"""

from __future__ import annotations

from runners.spec.arrival import ArrivalSpec, ClosedArrival, OpenArrival, RecordedArrival, StagedArrival, StageSpec
from runners.spec.base import Document, Name, Setting, Slug, Tag, Text
from runners.spec.design import DesignSpec, LadderDesign, LadderStep
from runners.spec.engine import EngineSpec, PrefixTiers, SchedulerSpec, SpeculationSpec, TierSpec
from runners.spec.experiment import BudgetSpec, CostSpec, ExperimentSpec, NodeSelector
from runners.spec.lengths import CountSpec, FixedCount, FixedLen, LengthSpec, LognormalLen, UniformCount, UniformLen
from runners.spec.pauses import ExponentialPause, FixedPause, LognormalPause, PauseSpec, UniformPause
from runners.spec.placement import DisaggregateSpec, Layout, LinkSpec, PlacementSpec, PoolSpec, RouterSpec
from runners.spec.quality import FloorSpec, QualitySpec, ReferenceSpec
from runners.spec.run import ModelRef, NodeLink, RunSpec
from runners.spec.search import LoadSearch, ParetoSearch, Range, RepeatsUntil, SearchSpec, SettingsSearch, Until
from runners.spec.sessions import AgentSpec, ConversationSpec
from runners.spec.shape import ShapedModel, ShapeSpec
from runners.spec.slo import SloSpec
from runners.spec.trace import TraceExtent, TraceRef, TraceSpec
from runners.spec.traffic import LognormalFactor, SharedPrefixSpec, ThinkingSpec, TrafficClass, UniformFactor
from runners.spec.workload import SamplingSpec, WarmupSpec, WorkloadSpec

__all__ = [
    "AgentSpec",
    "ArrivalSpec",
    "BudgetSpec",
    "ClosedArrival",
    "ConversationSpec",
    "CostSpec",
    "CountSpec",
    "DesignSpec",
    "DisaggregateSpec",
    "Document",
    "EngineSpec",
    "ExperimentSpec",
    "ExponentialPause",
    "FixedCount",
    "FixedLen",
    "FixedPause",
    "FloorSpec",
    "LadderDesign",
    "LadderStep",
    "Layout",
    "LengthSpec",
    "LinkSpec",
    "LoadSearch",
    "LognormalFactor",
    "LognormalLen",
    "LognormalPause",
    "ModelRef",
    "Name",
    "NodeLink",
    "NodeSelector",
    "OpenArrival",
    "ParetoSearch",
    "PauseSpec",
    "PlacementSpec",
    "PoolSpec",
    "PrefixTiers",
    "QualitySpec",
    "Range",
    "RecordedArrival",
    "ReferenceSpec",
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
    "StageSpec",
    "StagedArrival",
    "Tag",
    "Text",
    "ThinkingSpec",
    "TierSpec",
    "TraceExtent",
    "TraceRef",
    "TraceSpec",
    "TrafficClass",
    "UniformCount",
    "UniformFactor",
    "UniformLen",
    "UniformPause",
    "Until",
    "WarmupSpec",
    "WorkloadSpec",
]
