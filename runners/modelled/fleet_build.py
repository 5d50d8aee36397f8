"""From the plan of a system to its engines, each with an executor of its own, all on one clock that stands at 0."""

from __future__ import annotations

from itertools import count

from runners.modelled.clock import VirtualClock
from runners.modelled.executor import ModelledExecutor, build_engine
from runners.modelled.fleet import Fleet
from runners.modelled.fleet_engine import TimedEngine
from runners.modelled.fleet_transfer import KvLinks
from runners.modelled.front import reading_s
from runners.modelled.topology import PoolPlan, SystemPlan
from runners.spec import EngineSpec


def build(plan: SystemPlan, engine: EngineSpec, *, coalesce: bool = True) -> Fleet:
    """The system of `plan`, scheduled as `engine` says. With `coalesce` off every step is taken for itself, which gives
    the same and takes longer."""
    clock, numbers = VirtualClock(), count()
    several = sum(pool.engines for pool in plan.pools) > 1

    def make(pool: PoolPlan) -> list[TimedEngine]:
        engines = []
        for place in range(pool.engines):
            executor = ModelledExecutor(pool.cost, pool.kv, engine.block_size, clock)
            name = f"{pool.role}-{place}" if several else None
            pool_name = pool.role if len(plan.pools) > 1 else None
            engines.append(TimedEngine(next(numbers), build_engine(executor, engine, name), coalesce, pool_name))
        return engines

    pools = {pool.role: make(pool) for pool in plan.pools}
    links = KvLinks(plan.transfer) if plan.transfer is not None else None
    return Fleet(
        clock, pools.get("serve") or pools["prefill"], plan.router, decode=pools.get("decode", ()), links=links,
        reading_s=_reading_s(plan),
    )  # fmt: skip


def _reading_s(plan: SystemPlan) -> float:
    """That of the engine, as found on chips of these families; 0 where nothing is known of it there."""
    facts = [pool.cost.facts() for pool in plan.pools]
    if any(each["calibration"] != "calibrated" for each in facts):
        return 0.0
    return reading_s(facts[0]["engine_profile"], disaggregated=plan.transfer is not None)
