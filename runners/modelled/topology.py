"""From a placement to engines: which pools there are, how each engine lies over chips, what joins them, what it costs.

plan_for(chips, shape, engine, placement, …)    what a trial would run on, for who asks before there is a run
plan_system(spec)                               the same for a run, from its frozen records

Pure: no clock, no engine, no queue. An impossible system is a TopologyError that names the figure at fault, a model
without room a DoesNotFit with the bytes; a chip that can't compute the asked format a CostModelError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from runners.chips import ChipRecord, one_chip, record_for_run, refuse_architecture
from runners.modelled.capacity import KvPool, plan_kv_pool
from runners.modelled.cost import CostModel
from runners.modelled.layouts import Cutter, TopologyError
from runners.modelled.links import TRANSFER_SHARE, Link, find_link, is_stated
from runners.modelled.parallel import Parallel
from runners.modelled.profiles import ENGINE_PROFILES
from runners.modelled.shape import ModelShape
from runners.modelled.step_model import StepModel
from runners.precision import BYTES_PER_KV
from runners.spec import EngineSpec, Layout, PlacementSpec, PoolSpec, RouterSpec, RunSpec
from runners.spec.run import NodeLink

__all__ = ["PoolPlan", "SystemPlan", "TopologyError", "Transfer", "plan_for", "plan_system"]

Role = Literal["serve", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Engines that are all alike. `kv`, `idle_w` (null: not stated) and `chips_per_engine` are of one of them;
    `max_model_len` is what a sequence may have at most, by the model and by the blocks."""

    role: Role
    engines: int
    cost: StepModel
    kv: KvPool
    parallel: Parallel
    chip_ids: tuple[str, ...]
    chips_per_engine: int
    idle_w: float | None
    max_model_len: int

    @property
    def chips_of_engine(self) -> Mapping[str, int]:
        """Chips of one engine by kind."""
        return {self.chip_ids[0]: self.chips_per_engine}

    def facts(self) -> dict[str, Any]:
        parallel = self.parallel
        return {
            "role": self.role,
            "engines": self.engines,
            "chip": "+".join(self.chip_ids),
            "chips_per_engine": self.chips_per_engine,
            "parallel": {"tp": parallel.tp, "dp": parallel.dp, "pp": parallel.pp, "ep": parallel.ep},
            "num_blocks": self.kv.num_blocks,
            "kv_bytes": self.kv.num_blocks * self.kv.block_bytes,
            "weight_bytes_per_chip": self.kv.weight_bytes,
            "idle_w": self.idle_w,
            "bytes_per_s": self.cost.bytes_per_s,
            "flops_per_s": self.cost.flops_per_s,
        }


@dataclass(frozen=True, slots=True)
class Transfer:
    """How KV cache gets from a prefill engine to a decode engine: `bytes_per_s` of one pair of engines. Streamed by
    `layer`, what a layer leaves is sent while the next is computed; `whole`, all of it after the prompt."""

    bytes_per_token: int
    bytes_per_s: float
    latency_s: float
    layers: int
    stream: Literal["layer", "whole"]
    source: str

    def facts(self) -> dict[str, Any]:
        return {
            "bytes_per_token": self.bytes_per_token, "bytes_per_s": self.bytes_per_s, "latency_s": self.latency_s,
            "stream": self.stream, "source": self.source,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class SystemPlan:
    """All engines of a run. `links` are what joins chips inside of engines, by what they join; `usd_per_hour` is the
    sum of its chips' prices, null where one has none."""

    pools: tuple[PoolPlan, ...]
    transfer: Transfer | None
    router: RouterSpec
    chips: int
    usd_per_hour: float | None
    links: Mapping[str, Link] = field(default_factory=dict)

    @property
    def chip_counts(self) -> Mapping[str, int]:
        """Chips of each kind over all pools."""
        counts: Counter[str] = Counter()
        for pool in self.pools:
            counts.update({chip_id: number * pool.engines for chip_id, number in pool.chips_of_engine.items()})
        return counts

    @property
    def text(self) -> str:
        """In words, such as "prefill: 2 x 4 trainium3 (tp 4); decode: 1 x 1 wse3"."""
        return "; ".join(_in_words(pool, alone=len(self.pools) == 1) for pool in self.pools)

    def facts(self) -> dict[str, Any]:
        """What a result says of its system."""
        return {
            "chips": self.chips,
            "pools": [pool.facts() for pool in self.pools],
            "link": self.transfer.facts() if self.transfer else None,
            "links": {name: link.facts() for name, link in self.links.items()},
            "router": self.router.policy,
            "text": self.text,
        }


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
        chips, ModelShape.from_mapping(spec.model.shape), spec.engine, spec.placement, spec.workload.longest,
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
        if pool.role != "serve":
            return f"placement.disaggregate.{pool.role}.count"
        return "placement.replicas" if pool.engines > 1 else "placement.tensor_parallel"

    def _counted_pool(self, role: Role, wanted: PoolSpec, path: str) -> PoolPlan:
        count = None if wanted.count == "auto" else wanted.count
        pool = self._pool(role, wanted.chip, wanted, path, count)
        return pool if count is None else replace(pool, engines=count // pool.chips_per_engine)

    def _pool(self, role: Role, chip_id: str, layout: Layout, path: str, count: int | None) -> PoolPlan:
        """One engine of the role; how many there are is the caller's to say."""
        record, asked = self._record(chip_id, path), self._placement.link
        cutter = Cutter(record, self._shape, path, is_stated(chip_id, asked, self._stated))
        offered = None if self._counts is None else self._counts.get(chip_id)

        def make(parallel: Parallel) -> PoolPlan:
            link = find_link(record, record, asked, self._stated, within=True)
            stage_link = self._stage_link(record, cutter, parallel)
            cost = CostModel(
                record, self._shape, self._engine.weights, self._profile, parallel=parallel,
                kv_cache=self._engine.kv_cache, link=link, stage_link=stage_link,
            )  # fmt: skip
            pool = self._engines(role, cost, parallel)
            if parallel.chips > 1:
                self._links[chip_id] = link
            if stage_link != link and parallel.pp > 1:
                self._links[f"stages of {chip_id}"] = stage_link
            return pool

        return cutter.settle(layout, count, offered, make)[1]

    def _stage_link(self, record: ChipRecord, cutter: Cutter, parallel: Parallel) -> Link:
        """Stages that do not lie in one domain hand on over the network."""
        domain = record.interconnect.domain_chips
        within = domain is None or cutter.joined or parallel.chips <= domain
        return find_link(record, record, self._placement.link, self._stated, within)

    def _engines(self, role: Role, cost: CostModel, parallel: Parallel) -> PoolPlan:
        engine = self._engine
        kv = plan_kv_pool(cost, engine.block_size, engine.max_num_seqs, self._longest)
        return PoolPlan(
            role, 1, cost, kv, parallel, cost.chip_ids, cost.chips, cost.idle_w,
            min(self._shape.max_model_len, kv.max_sequence_tokens),
        )  # fmt: skip

    def _record(self, chip_id: str, path: str) -> ChipRecord:
        found = self._records.get(chip_id)
        if found is None:
            name = "chip" if path == "placement" else f"{path}.chip"
            raise TopologyError(name, f"{chip_id} is no chip of the run", ", ".join(sorted(self._records)))
        return found

    def _transfer(self, prefill: PoolPlan, decode: PoolPlan) -> Transfer:
        wanted = self._placement.disaggregate
        one, other = self._records[prefill.chip_ids[0]], self._records[decode.chip_ids[0]]
        domain = one.interconnect.domain_chips
        chips = prefill.engines * prefill.chips_per_engine + decode.engines * decode.chips_per_engine
        within = one.chip_id == other.chip_id and (domain is None or chips <= domain)
        link = find_link(one, other, wanted.link, self._stated, within)
        pairs = min(prefill.chips_per_engine, decode.chips_per_engine)
        latency_s = link.latency_s if link.latency_s is not None else one.interconnect.latency_s
        shape = self._shape
        kept = shape.attending_layers * shape.kv_elements_per_layer * BYTES_PER_KV[self._engine.kv_cache]
        return Transfer(kept, link.bytes_per_s * TRANSFER_SHARE * pairs, latency_s or 0.0, shape.layers, wanted.stream,
                        link.source)  # fmt: skip

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


def _in_words(pool: PoolPlan, alone: bool) -> str:
    parallel, cuts = pool.parallel, []
    for name in ("tp", "dp", "pp", "ep"):
        if getattr(parallel, name) > 1:
            cuts.append(f"{name} {getattr(parallel, name)}")
    role = "" if alone else f"{pool.role}: "
    layout = f" ({', '.join(cuts)})" if cuts else ""
    return f"{role}{pool.engines} x {pool.chips_per_engine} {'+'.join(pool.chip_ids)}{layout}"
