"""The executor of a modelled node: it computes nothing, and says how long the cost model takes for it.

It reads a virtual clock but doesn't move it: engines that share one run at the same time, and who drives them does.

The engine and scheduler above it are those of a measured node. Its tokens are made up, but always the same ones; so are
its embeddings. It gives no logprobs and follows no structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runners.modelled.capacity import KvPool
from runners.modelled.clock import VirtualClock
from runners.modelled.speculate import SpeculativeCostModel, num_accepted
from runners.modelled.step_model import DecodeSums, StepCost, StepModel, StepParts
from runners.modelled.tier_loads import cache_tiers, tiers_by_name, with_loads
from runners.runtime.engine import Engine
from runners.runtime.executor import ScheduledSequence, StepDetail, StepResult
from runners.runtime.scheduler import SchedulerConfig
from runners.runtime.sequence import SamplingParams
from runners.spec import EngineSpec, TierSpec

_SEED_STRIDE, _INDEX_STRIDE = 1_000_003, 7919


class ModelledExecutor:
    """Implements Executor and SteadyExecutor of runners.runtime.executor on a virtual clock. `tiers` are those that its
    engine loads cached prefixes from."""

    def __init__(self, cost: StepModel, pool: KvPool, block_size: int, clock: VirtualClock) -> None:
        self.cost = cost
        self.pool = pool
        self.clock = clock
        self.num_blocks = pool.num_blocks
        self.block_size = block_size
        self.max_model_len = min(cost.shape.max_model_len, pool.max_sequence_tokens)
        self.vocab_size = cost.shape.vocab_size
        self._window = cost.shape.sliding_window if cost.shape.sliding_layers else 0
        self.tiers: dict[str, TierSpec] = {}
        self._speculation = cost.spec if isinstance(cost, SpeculativeCostModel) else None
        self.last_step: StepCost | None = None

    @property
    def num_lookahead_tokens(self) -> int:
        """Drafts that a sequence may have in a step."""
        return self._speculation.max_draft if self._speculation is not None else 0

    def execute(self, batch: tuple[ScheduledSequence, ...]) -> StepResult:
        step = self.cost.step(batch)
        if self.tiers:
            loads = [load for share in batch for load in share.loaded]
            step = with_loads(step, loads, self.tiers, self.pool.block_bytes / self.block_size, self.cost.idle_w)
        self.last_step = step
        sampled = [share for share in batch if share.sample]
        accepted = self._accept(batch)
        tokens = {
            share.request_id: make_token(share.params, share.num_output_tokens, self.vocab_size)
            for share in sampled
            if not share.params.embed
        }
        if len(tokens) == len(sampled):
            return StepResult(tokens, step.duration_s, detail=_detail(step), accepted=accepted)
        axis = (1.0, *[0.0] * (self.cost.shape.hidden_size - 1))
        embeddings = {share.request_id: axis for share in sampled if share.params.embed}
        return StepResult(tokens, step.duration_s, embeddings=embeddings, detail=_detail(step), accepted=accepted)

    def decode_steps(self, starts: Sequence[int]) -> Iterator[tuple[float, StepDetail | None]]:
        for sums in DecodeSums.each(starts, self._window):
            self.last_step = step = self.cost.decode_step(sums)
            yield step.duration_s, _detail(step)

    def decode_tokens(self, params: SamplingParams, first_index: int, num_tokens: int) -> Sequence[int]:
        indices = range(first_index, first_index + num_tokens)
        if params.stop_token_ids:
            return [make_token(params, index, self.vocab_size) for index in indices]
        first, vocab_size = params.seed * _SEED_STRIDE, self.vocab_size
        return [(first + index * _INDEX_STRIDE) % vocab_size for index in indices]

    def _accept(self, batch: tuple[ScheduledSequence, ...]) -> dict[str, tuple[int, ...]]:
        """Of each sequence with drafts, the tokens after its one."""
        accepted: dict[str, tuple[int, ...]] = {}
        if self._speculation is None:
            return accepted
        for share in batch:
            if share.num_draft_tokens:
                params, first = share.params, share.num_output_tokens + 1
                number = num_accepted(self._speculation, params.seed, first, share.num_draft_tokens)
                accepted[share.request_id] = tuple(self.decode_tokens(params, first, number))
        return accepted

    def now(self) -> float:
        return self.clock.now()

    def facts(self) -> dict[str, Any]:
        """Provenance of a modelled run. `peaks` are those of the engine's chips together, for the precision the run
        computes in."""
        cost = self.cost
        return {
            "modelled": True,
            **cost.facts(),
            "chip": "+".join(cost.chip_ids),
            "weights": cost.weights,
            "weights_native": cost.native,
            "weight_bytes": cost.resident_bytes,
            "num_blocks": self.num_blocks,
            "block_size": self.block_size,
            "kv_bytes": self.num_blocks * self.pool.block_bytes,
            "max_model_len": self.max_model_len,
            "peaks": {"flops_per_s": cost.flops_per_s, "bytes_per_s": cost.bytes_per_s},
        }


@dataclass(frozen=True, slots=True)
class ModelledDetail(StepDetail):
    """With the step's seconds by what they were spent on."""

    parts: StepParts | None = None


def _detail(step: StepCost) -> ModelledDetail:
    parts = step.parts
    return ModelledDetail(parts.bound, parts.link_s, step.energy_j, parts)


def make_token(params: SamplingParams, index: int, vocab_size: int) -> int:
    """Depends on the request's seed and the token's index alone, and is never a stop token: a modelled answer has
    the length that was asked for."""
    token = (params.seed * _SEED_STRIDE + index * _INDEX_STRIDE) % vocab_size
    while token in params.stop_token_ids:
        token = (token + 1) % vocab_size
    return token


def build_engine(executor: ModelledExecutor, engine: EngineSpec, name: str | None = None) -> Engine:
    """The serving engine over it, scheduled as the spec says; `name` tells it from others of its run. Lets the executor
    know the tiers of the engine's prefix cache."""
    executor.tiers = tiers_by_name(engine.prefix_tiers)
    config = SchedulerConfig(
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        prefix_cache=engine.prefix_cache,
        chunked_prefill=engine.scheduler.chunked_prefill,
        policy=engine.scheduler.policy,
        num_lookahead_tokens=executor.num_lookahead_tokens,
        prefix_tiers=cache_tiers(engine.prefix_tiers, executor.pool),
    )
    return Engine(executor, config, name=name)
