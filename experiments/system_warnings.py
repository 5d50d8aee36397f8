"""Settings of engines and their placement that say something no trial uses, or work against each other. Allowed all the
same: an axis may make use of them in some trials.

Pure. What can't run at all is refused by experiments.services.feasibility.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from experiments.warnings import Warning
from runners.matrix import Plan
from runners.spec import ExperimentSpec, Layout, PlacementSpec, PrefixTiers, SpeculationSpec

LAYOUT = tuple(Layout.model_fields)
Holds = Callable[[ExperimentSpec], bool]


def find_system_warnings(plan: Plan) -> list[Warning]:
    cells = [cell.spec for cell in plan.cells]
    return [*_about_prefixes(cells), *_about_classes(cells), *_about_drafts(cells), *_about_placement(cells)]


def _about_prefixes(cells: Sequence[ExperimentSpec]) -> Iterator[Warning]:
    def uncached(asks: Holds) -> str | None:
        return _in(cells, lambda spec: asks(spec) and not spec.engine.prefix_cache)

    if (where := uncached(lambda spec: spec.workload.shared_prefix is not None)) is not None:
        message = f"prompts share prefixes, but engine.prefix_cache is false{where}: each is computed in full"
        yield Warning("workload.shared_prefix", message)
    if (where := uncached(lambda spec: spec.workload.has_sessions)) is not None:
        message = f"each turn holds all before it, but engine.prefix_cache is false{where}: it is computed in full"
        yield Warning("workload.kind", message)
    if (where := uncached(lambda spec: spec.engine.prefix_tiers != PrefixTiers())) is not None:
        message = f"tiers keep what the prefix cache drops, but engine.prefix_cache is false{where}: they stay empty"
        yield Warning("engine.prefix_tiers", message)
    if (where := uncached(lambda spec: spec.placement.router.policy == "kv_aware")) is not None:
        message = f"kv_aware looks for cached prefixes, but engine.prefix_cache is false{where}"
        yield Warning("placement.router.policy", message)


def _about_classes(cells: Sequence[ExperimentSpec]) -> Iterator[Warning]:
    ranked = [spec for spec in cells if len({one.priority for one in spec.workload.classes}) > 1]
    if ranked and all(spec.engine.scheduler.policy == "fcfs" for spec in ranked):
        message = "classes differ in priority, but no trial heeds it: engine.scheduler.policy is fcfs"
        yield Warning("workload.classes", message)


def _about_drafts(cells: Sequence[ExperimentSpec]) -> Iterator[Warning]:
    speculations = [spec.engine.speculation for spec in cells]
    if {one.kind for one in speculations} == {"none"} and set(speculations) != {SpeculationSpec()}:
        yield Warning("engine.speculation", "its kind is none in every trial, so the rest of it has no effect")


def _about_placement(cells: Sequence[ExperimentSpec]) -> Iterator[Warning]:
    if all(_has_idle_pools(spec.placement) for spec in cells):
        yield Warning("placement.disaggregate", "pools are given, but its kind is none in every trial")
    pooled = [spec for spec in cells if spec.placement.disaggregate.roles]
    if not pooled:
        yield from _about_router(cells)
        return
    if len(pooled) < len(cells):
        return
    plain = PlacementSpec()
    for name in ("replicas", *LAYOUT):
        if any(getattr(spec.placement, name) != getattr(plain, name) for spec in pooled):
            yield Warning(f"placement.{name}", "has no effect: each pool of disaggregate has a layout of its own")
    if any(spec.chip != "any" for spec in pooled):
        yield Warning("chip", "has no effect: the pools of disaggregate name their chips")


def _about_router(cells: Sequence[ExperimentSpec]) -> Iterator[Warning]:
    policies = {spec.placement.router.policy for spec in cells}
    if policies != {"round_robin"} and all(spec.placement.replicas == 1 for spec in cells):
        yield Warning("placement.router.policy", "has no effect: with placement.replicas 1 there is one engine")


def _has_idle_pools(placement: PlacementSpec) -> bool:
    pools = placement.disaggregate
    return not pools.roles and any((pools.prefill, pools.decode, pools.attention, pools.ffn))


def _in(cells: Sequence[ExperimentSpec], holds: Holds) -> str | None:
    """In how many of the trials it holds, to be added to a sentence: nothing for all of them; None where in none."""
    count = sum(holds(spec) for spec in cells)
    if not count:
        return None
    return f" in {count} of {len(cells)} trials" if count < len(cells) else ""
