"""What it takes to bring cached prefixes back from tiers below the chip's memory.

Blocks that a step's prefills need are loaded layer by layer, each while the layer before is computed, as LMCache does
(Liu et al. 2025, arXiv 2510.09665): a step takes as long as the longer of both, and each tier's latency once. What
the tiers of one engine give in a step comes one after another. What is kept there again on the way down is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runners.modelled.capacity import KvPool
from runners.modelled.step_model import CostModelError, StepCost, StepParts
from runners.runtime.tiers import PrefixTier, TierLoad
from runners.spec import PrefixTiers, TierSpec


def tiers_by_name(tiers: PrefixTiers) -> dict[str, TierSpec]:
    """Those that there are, nearest first."""
    found = {"host": tiers.host, "remote": tiers.remote}
    return {name: tier for name, tier in found.items() if tier is not None}


def cache_tiers(tiers: PrefixTiers, pool: KvPool) -> tuple[PrefixTier, ...]:
    """The tiers in blocks of that pool. Raises CostModelError for one that holds none."""
    made = []
    for name, tier in tiers_by_name(tiers).items():
        num_blocks = int(tier.capacity_bytes // pool.block_bytes)
        if not num_blocks:
            raise CostModelError(
                f"{tier.capacity_bytes:g} bytes hold no KV block", field=f"engine.prefix_tiers.{name}.capacity_bytes",
                allowed=f"at least {pool.block_bytes:,} bytes",
            )  # fmt: skip
        made.append(PrefixTier(name, num_blocks))
    return tuple(made)


def with_loads(
    step: StepCost, loads: Iterable[TierLoad], tiers: Mapping[str, TierSpec], bytes_per_token: float,
    idle_w: float | None,
) -> StepCost:  # fmt: skip
    """The step with those loads beside it. Time that the chips only wait counts as time of a link, at idle power."""
    tokens: dict[str, int] = {}
    for load in loads:
        tokens[load.tier] = tokens.get(load.tier, 0) + load.num_tokens
    if not tokens:
        return step
    load_s = sum(number * bytes_per_token / tiers[name].bytes_per_s for name, number in tokens.items())
    waited_s = max(load_s - step.duration_s, 0.0) + sum(tiers[name].latency_s for name in tokens)
    energy_j = None if step.energy_j is None or idle_w is None else step.energy_j + waited_s * idle_w
    return StepCost(
        step.linear_flops, step.attention_flops, step.weight_bytes, step.kv_bytes, step.compute_s, step.memory_s,
        step.duration_s + waited_s, step.parts.plus(StepParts(0.0, 0.0, waited_s, 0.0)), energy_j,
    )  # fmt: skip
