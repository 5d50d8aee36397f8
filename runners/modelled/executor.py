"""The executor of a modelled node: it computes nothing, and says how long the cost model takes for it.

It reads a virtual clock but doesn't move it: engines that share one run at the same time, and who drives them does.

The engine and scheduler above it are those of a measured node. Its tokens are made up, but always the same ones; so are
its embeddings. It gives no logprobs and follows no structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.chips import ChipRecord
from runners.modelled.capacity import KvPool, plan_kv_pool
from runners.modelled.clock import VirtualClock
from runners.modelled.cost import BARE_COST_MODEL, CostModel, StepCost
from runners.modelled.shape import ModelShape
from runners.modelled.tuning import DEFAULT_PROFILE
from runners.runtime.engine import Engine
from runners.runtime.executor import ScheduledSequence, StepResult
from runners.runtime.scheduler import SchedulerConfig
from runners.spec import EngineSpec


class ModelledExecutor:
    """Implements runners.runtime.executor.Executor on a virtual clock."""

    def __init__(self, cost: CostModel, pool: KvPool, block_size: int, clock: VirtualClock) -> None:
        self.cost = cost
        self.pool = pool
        self.clock = clock
        self.num_blocks = pool.num_blocks
        self.block_size = block_size
        self.max_model_len = cost.shape.max_model_len
        self.vocab_size = cost.shape.vocab_size
        self.last_step: StepCost | None = None

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        self.last_step = step = self.cost.step(batch)
        drawn = [share for share in batch if share.sample and not share.params.embed]
        tokens = {share.request_id: make_token(share, self.vocab_size) for share in drawn}
        axis = (1.0, *[0.0] * (self.cost.shape.hidden_size - 1))
        embeddings = {share.request_id: axis for share in batch if share.sample and share.params.embed}
        return StepResult(tokens, step.duration_s, embeddings=embeddings)

    def now(self) -> float:
        return self.clock.now()

    def facts(self) -> dict[str, Any]:
        """Provenance of a modelled run. `peaks` are the chip record's, for the precision the run computes in."""
        cost = self.cost
        return {
            "modelled": True,
            **(cost.tuning.facts() if cost.tuning else {"calibration": "uncalibrated", "cost_model": BARE_COST_MODEL}),
            "chip": cost.chip.chip_id,
            "weights": cost.weights,
            "weights_native": cost.native,
            "weight_bytes": cost.resident_bytes,
            "num_blocks": self.num_blocks,
            "block_size": self.block_size,
            "kv_bytes": self.num_blocks * self.pool.block_bytes,
            "max_model_len": self.max_model_len,
            "peaks": {"flops_per_s": cost.linear_flops_per_s, "bytes_per_s": cost.bytes_per_s},
        }


def make_token(share: ScheduledSequence, vocab_size: int) -> int:
    """Depends on the request's seed and the token's index alone, and is never a stop token: a modelled answer has
    the length that was asked for."""
    stops = share.params.stop_token_ids
    token = (share.params.seed * 1_000_003 + share.num_output_tokens * 7919) % vocab_size
    while token in stops:
        token = (token + 1) % vocab_size
    return token


def build(
    chip: ChipRecord, shape: Mapping[str, Any], engine: EngineSpec, profile: str | None = DEFAULT_PROFILE
) -> ModelledExecutor:
    """The executor of `engine` for a model of that shape on that chip, its clock at 0. `profile` is the engine whose
    overheads and efficiencies it has; None for the bare roofline.

    Raises ShapeError, CostModelError (the chip lacks a rate), DoesNotFit.
    """
    cost = CostModel(chip, ModelShape.from_mapping(shape), engine.weights, profile)
    pool = plan_kv_pool(cost, engine.block_size, engine.max_num_seqs)
    return ModelledExecutor(cost, pool, engine.block_size, VirtualClock())


def build_engine(executor: ModelledExecutor, engine: EngineSpec) -> Engine:
    """The serving engine over it, scheduled as the spec says."""
    config = SchedulerConfig(
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        prefix_cache=engine.prefix_cache,
        chunked_prefill=engine.scheduler.chunked_prefill,
    )
    return Engine(executor, config)
