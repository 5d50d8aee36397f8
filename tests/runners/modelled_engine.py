"""One modelled engine on one chip, without a plan: for tests of what is below a system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.chips import ChipRecord
from runners.modelled.capacity import plan_kv_pool
from runners.modelled.clock import VirtualClock
from runners.modelled.cost import CostModel
from runners.modelled.executor import ModelledExecutor
from runners.modelled.shape import ModelShape
from runners.modelled.tuning import DEFAULT_PROFILE
from runners.spec import EngineSpec


def make_executor(chip: ChipRecord, shape: Mapping[str, Any], engine: EngineSpec) -> ModelledExecutor:
    """With room for the model's longest sequence, its clock at 0."""
    cost = CostModel(chip, ModelShape.from_mapping(shape), engine.weights, DEFAULT_PROFILE, kv_cache=engine.kv_cache)
    pool = plan_kv_pool(cost, engine.block_size, engine.max_num_seqs)
    return ModelledExecutor(cost, pool, engine.block_size, VirtualClock())
