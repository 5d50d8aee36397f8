"""A whole load on a virtual clock, over systems of engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from test_virtual import H100, WALL_S, run_spec

from runners.chips import load_catalog
from runners.events import AnyEvent, RequestRecord, Sample, Step
from runners.load.drive import LoadResult
from runners.load.virtual import run
from runners.modelled.fleet import Fleet
from runners.modelled.fleet_build import build
from runners.modelled.fleet_facts import system_facts
from runners.modelled.topology import PoolPlan, SystemPlan, plan_system
from runners.spec import PlacementSpec, RunSpec

RECORDS = {chip.chip_id: chip.model_dump(mode="json") for chip in load_catalog()}


@dataclass(frozen=True)
class Played:
    result: LoadResult
    events: list[AnyEvent]
    facts: dict[str, Any]
    fleet: Fleet

    @property
    def steps(self) -> list[Step]:
        return [event for event in self.events if isinstance(event, Step)]

    @property
    def samples(self) -> list[Sample]:
        return [event for event in self.events if isinstance(event, Sample)]

    @property
    def measured(self) -> list[RequestRecord]:
        found = [event for event in self.events if isinstance(event, RequestRecord) and event.phase == "measured"]
        return sorted(found, key=lambda record: record.index)

    def steps_of(self, pool: str) -> list[Step]:
        return [step for step in self.steps if (step.engine or "").startswith(pool)]


def pools(prefill: int = 1, decode: int = 1, **more: Any) -> dict[str, Any]:
    """A placement with a prefill and a decode pool."""
    return {
        "disaggregate": {
            "kind": "prefill_decode",
            "prefill": {"chip": "h100-sxm", "count": prefill},
            "decode": {"chip": "h200-sxm", "count": decode},
            **more,
        }
    }


def system_spec(placement: dict[str, Any], seed: int = 3, engine: dict[str, Any] | None = None, **load: Any) -> RunSpec:
    asked = PlacementSpec.model_validate(placement)
    records = {chip: RECORDS[chip] for chip in asked.chips(H100.chip_id)}
    spec = run_spec(seed, engine, **load)
    return spec.model_copy(update={"placement": asked, "chips": records, "chip": RECORDS[H100.chip_id]})


def play_system(spec: RunSpec, coalesce: bool = True, num_blocks: Mapping[str, int] | None = None) -> Played:
    """`num_blocks` are those of each engine of a pool, by the pool's role, where they are to be few."""
    plan = plan_system(spec)
    if num_blocks is not None:
        plan = replace(plan, pools=tuple(_with_blocks(pool, num_blocks.get(pool.role), spec) for pool in plan.pools))
    return play_plan(spec, plan, coalesce)


def play_plan(spec: RunSpec, plan: SystemPlan, coalesce: bool = True) -> Played:
    fleet = build(plan, spec.engine, coalesce=coalesce)
    events: list[AnyEvent] = []
    result = run(spec, fleet, events.extend, wall=lambda: WALL_S)
    fleet.check_integrity()
    return Played(result, events, system_facts(plan, fleet), fleet)


def with_few_blocks(plan: SystemPlan, spec: RunSpec, num_blocks: int) -> SystemPlan:
    return replace(plan, pools=tuple(_with_blocks(pool, num_blocks, spec) for pool in plan.pools))


def _with_blocks(pool: PoolPlan, num_blocks: int | None, spec: RunSpec) -> PoolPlan:
    if num_blocks is None:
        return pool
    tokens = num_blocks * spec.engine.block_size
    return replace(pool, kv=replace(pool.kv, num_blocks=num_blocks, max_sequence_tokens=tokens))
