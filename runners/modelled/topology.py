"""From a placement to engines: which pools there are, how each engine lies over chips, what joins them, what it costs.

plan_for(chips, shape, engine, placement, …)    what a trial would run on, for who asks before there is a run
plan_system(spec)                               the same for a run, from its frozen records

Pure: no clock, no engine, no queue. An impossible system is a TopologyError that names the figure at fault, a model
without room a DoesNotFit with the bytes; a chip that can't compute the asked format a CostModelError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from runners.chips import ChipRecord, one_chip, record_for_run, refuse_architecture
from runners.modelled.capacity import Held, Holder, KvPool, check_weights_fit, plan_kv_pool
from runners.modelled.chip_group import ChipGroup
from runners.modelled.cost import CostModel
from runners.modelled.layouts import Cutter, TopologyError
from runners.modelled.links import TRANSFER_SHARE, Link, find_link, is_stated
from runners.modelled.parallel import Parallel
from runners.modelled.profiles import ENGINE_PROFILES
from runners.modelled.shape import ModelShape
from runners.modelled.speculate import SpeculativeCostModel, Target, drafter_of
from runners.modelled.split import SplitCostModel, attention_half, ffn_half
from runners.modelled.step_model import StepModel
from runners.modelled.system_plan import BETWEEN, PoolPlan, Role, SystemPlan, Transfer
from runners.modelled.tier_loads import cache_tiers
from runners.modelled.tuning import link_peaks
from runners.precision import BYTES_PER_KV
from runners.spec import EngineSpec, Layout, PlacementSpec, PoolSpec, RunSpec
from runners.spec.run import NodeLink

__all__ = ["PoolPlan", "SystemPlan", "TopologyError", "Transfer", "plan_for", "plan_system"]

Group = TypeVar("Group", bound=ChipGroup)


def plan_system(spec: RunSpec) -> SystemPlan:
    """The system of a run. Raises TopologyError, DoesNotFit, CostModelError, NotModellable (a chip whose figures are
    not disclosed, or that can't run the model's architecture), ShapeError, and pydantic's ValidationError for a broken
    record."""
    main = str(spec.chip["chip_id"]) if spec.chip is not None else spec.chip_id
    records = spec.chips or ({main: spec.chip} if spec.chip is not None else {})
    chips = {}
    for chip_id, data in records.items():
        record = record_for_run(ChipRecord.model_validate(data), spec.allow_speculative)
        refuse_architecture(record, spec.model.shape)
        chips[chip_id] = record
    draft = ModelShape.from_mapping(spec.draft.shape) if spec.draft is not None else None
    return plan_for(
        chips, ModelShape.from_mapping(spec.model.shape), spec.engine, spec.placement, spec.longest,
        spec.links, chip=main, draft=draft,
    )  # fmt: skip


def plan_for(
    chips: Mapping[str, ChipRecord],
    shape: ModelShape,
    engine: EngineSpec,
    placement: PlacementSpec,
    workload_longest: int,
    links: Sequence[NodeLink] = (),
    counts: Mapping[str, int] | None = None,
    *,
    chip: str | None = None,
    draft: ModelShape | None = None,
) -> SystemPlan:
    """`chips` are the records that the placement names, by id, fit to be run (`record_for_run`); `chip` is the
    document's own where there are several. `workload_longest` is the longest prompt and answer together, in tokens;
    `counts` how many chips of each kind are offered (None: as many as it takes).

    Raises TopologyError, DoesNotFit, CostModelError."""
    planner = _Planner(chips, shape, engine, placement, workload_longest, links, counts, draft)
    kind = placement.disaggregate.kind
    if kind == "prefill_decode":
        plan = planner.plan_prefill_decode()
    elif kind == "attention_ffn":
        plan = planner.plan_attention_ffn()
    else:
        plan = planner.plan_serving(chip or next(iter(chips)))
    planner.check_offered(plan)
    return plan


class _Planner:
    """One call of `plan_for`."""

    def __init__(
        self, chips: Mapping[str, ChipRecord], shape: ModelShape, engine: EngineSpec, placement: PlacementSpec,
        longest: int, links: Sequence[NodeLink], counts: Mapping[str, int] | None, draft: ModelShape | None,
    ) -> None:  # fmt: skip
        self._records = {chip_id: one_chip(record) for chip_id, record in chips.items()}
        self._shape, self._engine, self._placement = shape, engine, placement
        self._longest, self._stated, self._counts, self._draft = longest, links, counts, draft
        self._profile = ENGINE_PROFILES[engine.profile]
        self._links: dict[str, Link] = {}

    def plan_serving(self, chip_id: str) -> SystemPlan:
        placement = self._placement
        pool = self._pool("serve", chip_id, placement, "placement", None)
        return self._system((replace(pool, engines=placement.replicas),), None)

    def plan_prefill_decode(self) -> SystemPlan:
        wanted = self._placement.disaggregate
        assert wanted.prefill is not None and wanted.decode is not None
        path = "placement.disaggregate"
        prefill = self._counted_pool("prefill", wanted.prefill, f"{path}.prefill")
        decode = self._counted_pool("decode", wanted.decode, f"{path}.decode")
        return self._system((prefill, decode), self._transfer(prefill, decode))

    def plan_attention_ffn(self) -> SystemPlan:
        wanted = self._placement.disaggregate
        assert wanted.attention is not None and wanted.ffn is not None
        attention = self._side("attention", wanted.attention, attention_half(self._shape))
        ffn = self._side("ffn", wanted.ffn, ffn_half(self._shape))
        between = self._between(attention.chip, ffn.chip, attention.chips + ffn.chips)
        self._links[BETWEEN] = between
        cost = SplitCostModel(self._shape, attention, ffn, between, wanted.micro_batches)
        return self._system((replace(self._engines("serve", cost, attention), ffn=ffn.parallel),), None)

    def _side(self, has: Literal["attention", "ffn"], wanted: PoolSpec, half: ModelShape) -> ChipGroup:
        """All chips of one side: as many groups of attention, or as wide a split of the rest, as `count` chips make."""
        path = f"placement.disaggregate.{has}"
        record = self._record(wanted.chip, path)
        stated = is_stated(wanted.chip, self._placement.link, self._stated)
        cutter = Cutter(record, self._shape, path, stated, has)
        count = None if wanted.count == "auto" else wanted.count

        def make(parallel: Parallel) -> ChipGroup:
            shared = parallel.ep == parallel.group and has == "ffn"
            group = self._group(ChipGroup, record, half, parallel, cutter,
                                micro_batches=self._placement.disaggregate.micro_batches,
                                collectives=0 if shared else 1)  # fmt: skip
            if has == "attention":
                self._kv_pool(group)
            else:
                check_weights_fit(group)
            return group

        parallel, group = cutter.settle(wanted, count, self._offered(wanted.chip), make)
        if count is None or count == parallel.chips:
            return group
        times = count // parallel.chips
        wider = (
            replace(parallel, dp=parallel.dp * times)
            if has == "attention"
            else replace(parallel, tp=parallel.tp * times)
        )
        cutter.check(wider)
        return make(wider)

    def check_offered(self, plan: SystemPlan) -> None:
        """Raises TopologyError where it takes more chips than are offered."""
        needed: dict[str, tuple[int, str]] = {}
        for pool in plan.pools:
            for chip_id, number in pool.chips_of_engine.items():
                before = needed.get(chip_id, (0, ""))[0]
                needed[chip_id] = (before + number * pool.engines, self._count_field(pool))
        for chip_id, (number, path) in needed.items():
            offered = number if self._counts is None else self._counts.get(chip_id, 0)
            if number > offered:
                raise TopologyError(path, f"takes {number} x {chip_id}", f"{offered}, as many as the node offers")

    def _count_field(self, pool: PoolPlan) -> str:
        if pool.ffn is not None:
            return "placement.disaggregate"
        if pool.role != "serve":
            return f"placement.disaggregate.{pool.role}.count"
        return "placement.replicas" if pool.engines > 1 else "placement.tensor_parallel"

    def _counted_pool(self, role: Role, wanted: PoolSpec, path: str) -> PoolPlan:
        count = None if wanted.count == "auto" else wanted.count
        pool = self._pool(role, wanted.chip, wanted, path, count)
        return pool if count is None else replace(pool, engines=count // pool.chips_per_engine)

    def _pool(self, role: Role, chip_id: str, layout: Layout, path: str, count: int | None) -> PoolPlan:
        """One engine of the role; how many there are is the caller's to say."""
        record = self._record(chip_id, path)
        cutter = Cutter(record, self._shape, path, is_stated(chip_id, self._placement.link, self._stated))

        def make(parallel: Parallel) -> PoolPlan:
            cost = self._group(CostModel, record, self._shape, parallel, cutter)
            return self._engines(role, cost, cost)

        return cutter.settle(layout, count, self._offered(chip_id), make)[1]

    def _offered(self, chip_id: str) -> int | None:
        return None if self._counts is None else self._counts.get(chip_id)

    def _group(
        self, kind: type[Group], record: ChipRecord, shape: ModelShape, parallel: Parallel, cutter: Cutter, **cut: int
    ) -> Group:
        """Chips of one kind with that part of the model, over the links that join them. Stages that do not lie in one
        domain hand on over the network."""
        asked, chip_id, domain = self._placement.link, record.chip_id, record.interconnect.domain_chips
        link = find_link(record, record, asked, self._stated, within=True)
        within = domain is None or cutter.joined or parallel.chips <= domain
        stage_link = find_link(record, record, asked, self._stated, within)
        group = kind(
            record, shape, self._engine.weights, self._profile, parallel=parallel, kv_cache=self._engine.kv_cache,
            link=link, stage_link=stage_link, **cut,
        )  # fmt: skip
        if parallel.chips > 1:
            self._links[chip_id] = link
        if stage_link != link and parallel.pp > 1:
            self._links[f"stages of {chip_id}"] = stage_link
        return group

    def _kv_pool(self, holder: Holder) -> KvPool:
        return plan_kv_pool(holder, self._engine.block_size, self._engine.max_num_seqs, self._longest)

    def _engines(self, role: Role, target: Target, group: ChipGroup) -> PoolPlan:
        """Those with their cache on the chips of `group`, beside what drafts, for which a prefill engine has no use."""
        spec = self._engine.speculation
        if spec.kind == "none" or role == "prefill":
            return self._engine_pool(role, target, group.parallel, self._kv_pool(group))
        if spec.kind == "self" and isinstance(target, SplitCostModel):
            raise TopologyError("engine.speculation.kind", "no chip has a whole layer that could draft, as attention "
                                "and FFN lie apart", "none, ngram, draft")  # fmt: skip
        kv_cache = self._engine.kv_cache
        drafter = drafter_of(spec, group, self._shape, self._draft, self._profile, kv_cache)
        apart = spec.kind == "draft"
        held = Held.both(group, drafter) if apart and drafter is not None else group
        cost = SpeculativeCostModel(target, drafter, spec, computes_prompts=apart)
        return self._engine_pool(role, cost, group.parallel, self._kv_pool(held))

    def _engine_pool(self, role: Role, cost: StepModel, parallel: Parallel, kv: KvPool) -> PoolPlan:
        cache_tiers(self._engine.prefix_tiers, kv)  # Raises for one that is too small.
        longest = min(self._shape.max_model_len, kv.max_sequence_tokens)
        return PoolPlan(role, 1, cost, kv, parallel, cost.chip_ids, cost.chips, cost.idle_w, longest)

    def _record(self, chip_id: str, path: str) -> ChipRecord:
        found = self._records.get(chip_id)
        if found is None:
            name = "chip" if path == "placement" else f"{path}.chip"
            raise TopologyError(name, f"{chip_id} is no chip of the run", ", ".join(sorted(self._records)))
        return found

    def _transfer(self, prefill: PoolPlan, decode: PoolPlan) -> Transfer:
        one, other = self._records[prefill.chip_ids[0]], self._records[decode.chip_ids[0]]
        chips = prefill.engines * prefill.chips_per_engine + decode.engines * decode.chips_per_engine
        link = self._between(one, other, chips)
        pairs = min(prefill.chips_per_engine, decode.chips_per_engine)
        shape = self._shape
        kept = shape.attending_layers * shape.kv_elements_per_layer * BYTES_PER_KV[self._engine.kv_cache]
        return Transfer(kept, link.bytes_per_s * TRANSFER_SHARE * pairs, link.latency_s or 0.0, shape.layers,
                        self._placement.disaggregate.stream, link.source)  # fmt: skip

    def _between(self, one: ChipRecord, other: ChipRecord, chips: int) -> Link:
        """What joins two pools or sides. So many chips of one kind may lie in one domain; a link of theirs without a
        latency of its own has the record's."""
        domain = one.interconnect.domain_chips
        within = one.chip_id == other.chip_id and (domain is None or chips <= domain)
        link = find_link(one, other, self._placement.disaggregate.link, self._stated, within)
        return link if link.latency_s is not None else replace(link, latency_s=link_peaks(one)[1])

    def _system(self, pools: tuple[PoolPlan, ...], transfer: Transfer | None) -> SystemPlan:
        prices: list[float | None] = []
        for pool in pools:
            for chip_id, number in pool.chips_of_engine.items():
                price = self._records[chip_id].usd_per_hour
                prices.append(None if price is None else price * number * pool.engines)
        known = [price for price in prices if price is not None]
        return SystemPlan(
            pools, transfer, self._placement.router, sum(pool.engines * pool.chips_per_engine for pool in pools),
            sum(known) if len(known) == len(prices) else None, self._links,
        )  # fmt: skip
