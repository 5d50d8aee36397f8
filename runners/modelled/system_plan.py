"""What a run runs on: pools of engines that are all alike, what joins them, and what the whole costs an hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from runners.modelled.capacity import KvPool
from runners.modelled.links import Link
from runners.modelled.parallel import Parallel
from runners.modelled.step_model import StepModel
from runners.spec import RouterSpec

BETWEEN = "attention to FFN"
"""Name of the link between the two sides of an engine."""

Role = Literal["serve", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Engines that are all alike. `kv`, `idle_w` (null: not stated) and `chips_per_engine` are of one of them;
    `max_model_len` is what a sequence may have at most, by the model and by the blocks. Where attention and FFN lie on
    chips of their own, `parallel` is how attention does, and `ffn` the other."""

    role: Role
    engines: int
    cost: StepModel
    kv: KvPool
    parallel: Parallel
    chip_ids: tuple[str, ...]
    chips_per_engine: int
    idle_w: float | None
    max_model_len: int
    ffn: Parallel | None = None

    @property
    def chips_of_engine(self) -> Mapping[str, int]:
        """Chips of one engine by kind."""
        return self.cost.chips_by_id

    def facts(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "engines": self.engines,
            "chip": "+".join(self.chip_ids),
            "chips": dict(self.chips_of_engine),
            "chips_per_engine": self.chips_per_engine,
            "parallel": _cuts(self.parallel) | ({"ffn": _cuts(self.ffn)} if self.ffn is not None else {}),
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
        """What a result says of its system. `link` is what joins its pools, or the two sides of its engines."""
        joint = self.transfer or self.links.get(BETWEEN)
        return {
            "chips": self.chips,
            "pools": [pool.facts() for pool in self.pools],
            "link": joint.facts() if joint is not None else None,
            "links": {name: link.facts() for name, link in self.links.items()},
            "router": self.router.policy,
            "text": self.text,
        }


def _cuts(parallel: Parallel) -> dict[str, int]:
    return {"tp": parallel.tp, "dp": parallel.dp, "pp": parallel.pp, "ep": parallel.ep}


def _in_words(pool: PoolPlan, alone: bool) -> str:
    sides = [(number, chip_id) for chip_id, number in pool.chips_of_engine.items()]
    layouts = [pool.parallel] if pool.ffn is None else [pool.parallel, pool.ffn]
    cuts = [", ".join(f"{name} {cut}" for name, cut in _cuts(parallel).items() if cut > 1) for parallel in layouts]
    chips = " + ".join(f"{number} {chip_id}" for number, chip_id in sides)
    role = "" if alone else f"{pool.role}: "
    layout = f" ({' | '.join(cut or 'whole' for cut in cuts)})" if any(cuts) else ""
    return f"{role}{pool.engines} x {chips}{layout}"
