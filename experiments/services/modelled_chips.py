"""Whether the chips of modelled nodes can run a trial: what is disclosed of them, their formats, their architecture.

Whether a model fits into their memory is for placement to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from experiments.placement import Demand, FreeNode, has_chips, is_meant
from hardware.models import Node, NodeKind
from runners.chips import ChipRecord, NotModellable, linear_flops, record_for_run, refuse_architecture
from runners.spec import ExperimentSpec

ModelledRecords = Mapping[str, Mapping[str, Any]]
"""Stored records of the chips that modelled nodes stand for, by chip id."""


def modelled_records(nodes: Iterable[Node]) -> ModelledRecords:
    return {node.chip.chip_id: node.chip.record for node in nodes if node.chip and node.kind == NodeKind.MODELLED}


def why_not_modelled(
    cell: ExperimentSpec,
    shape: Mapping[str, Any],
    demand: Demand,
    nodes: Sequence[FreeNode],
    records: ModelledRecords,
) -> NotModellable | None:
    """Why none of the modelled nodes that the trial means can run it; None where one can, or none is meant."""
    meant = [node for node in nodes if is_meant(demand, node) and has_chips(demand, node)]
    if any(node.labels["kind"] != NodeKind.MODELLED for node in meant):
        return None
    refusal = None
    for chip_id in demand.chips or sorted({node.chip_id for node in meant if node.chip_id in records}):
        refusal = _refusal(cell, shape, records[chip_id])
        if refusal is None:
            return None
    return refusal


def _refusal(cell: ExperimentSpec, shape: Mapping[str, Any], stored: Mapping[str, Any]) -> NotModellable | None:
    try:
        whole = ChipRecord.model_validate(stored)
    except ValidationError as error:
        chip_id, count = str(stored.get("chip_id")), error.error_count()
        return NotModellable(chip_id, "chip", f"its stored record has {count} faults", "a chip with a whole record")
    try:
        record = record_for_run(whole, cell.allow_speculative)
        linear_flops(record, cell.engine.weights)
        refuse_architecture(record, shape)
    except NotModellable as error:
        return error
    return None
