"""What a document may ask of nodes of one kind alone: on modelled ones formats, layouts and drafting that the built-in
runtime has not, on measured ones answers.

Pure. A setting whose value asks for nothing (no tiers, one engine) is no fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runners.document import FieldError
from runners.spec import EngineSpec, ExperimentSpec, LinkSpec, PlacementSpec, RouterSpec

WEIGHTS = ("bf16", "int8", "int4")
WHERE = "on a measured node; modelled ones take it (nodes: {labels: {kind: modelled}}, or a chip)"


def measured_limits(spec: ExperimentSpec) -> Iterator[FieldError]:
    """A fault for each setting that no measured node takes."""
    for field, value, allowed in (*_of_engine(spec.engine), *_of_placement(spec.placement)):
        if value not in allowed:
            yield FieldError(field, f"{_shown(value)} is not taken {WHERE}", list(allowed))
    for field, given in _given(spec):
        if given:
            yield FieldError(field, f"is not taken {WHERE}", "null, or leave it out")


def modelled_limits(spec: ExperimentSpec) -> Iterator[FieldError]:
    """A fault for what no modelled node takes."""
    if spec.workload.kind == "tasks":
        message = "tasks are not taken on a modelled node: a cost model answers no questions"
        yield FieldError("workload.kind", message, ["synthetic", "text", "conversation", "agent", "trace"])


def _of_engine(engine: EngineSpec) -> tuple[tuple[str, Any, tuple[Any, ...]], ...]:
    return (
        ("engine.profile", engine.profile, ("auto",)),
        ("engine.weights", engine.weights, WEIGHTS),
        ("engine.kv_cache", engine.kv_cache, ("bf16",)),
        ("engine.speculation.kind", engine.speculation.kind, ("none",)),
    )


def _of_placement(placement: PlacementSpec) -> tuple[tuple[str, Any, tuple[Any, ...]], ...]:
    return (
        ("placement.replicas", placement.replicas, (1,)),
        ("placement.tensor_parallel", placement.tensor_parallel, ("auto", 1)),
        ("placement.data_parallel", placement.data_parallel, (1,)),
        ("placement.pipeline_parallel", placement.pipeline_parallel, (1,)),
        ("placement.expert_parallel", placement.expert_parallel, (1,)),
        ("placement.disaggregate.kind", placement.disaggregate.kind, ("none",)),
        ("placement.router.policy", placement.router.policy, (RouterSpec().policy,)),
    )


def _given(spec: ExperimentSpec) -> tuple[tuple[str, bool], ...]:
    tiers, no_link = spec.engine.prefix_tiers, LinkSpec()
    return (
        ("engine.prefix_tiers.host", tiers.host is not None),
        ("engine.prefix_tiers.remote", tiers.remote is not None),
        ("placement.link", spec.placement.link != no_link),
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value}"
