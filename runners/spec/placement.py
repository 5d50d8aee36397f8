"""How the engines of a run are laid over chips: replicas, parallelism, roles on different chips, links, routing."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from runners.spec.base import SLOWEST_BYTES_PER_S, Document, Slug

Count = Annotated[int, Field(ge=1, le=100_000)]
CountOrAuto = Literal["auto"] | Count


class LinkSpec(Document):
    """One direction of a link, of one chip: null is what the node states for it, or else the chip's record."""

    bytes_per_s: float | None = Field(default=None, ge=SLOWEST_BYTES_PER_S, le=1e16)
    latency_s: float | None = Field(default=None, ge=0, le=10)


class Layout(Document):
    """How one engine lies over chips. Attention is split over `tensor_parallel` chips and repeated in `data_parallel`
    groups with sequences of their own; experts lie whole on `expert_parallel` of those chips (1: each is split);
    `pipeline_parallel` stages hold a share of the layers each. `tensor_parallel` auto is the fewest chips, in powers of
    two, that hold the model and the cache of one full-length sequence."""

    tensor_parallel: CountOrAuto = "auto"
    data_parallel: Count = 1
    pipeline_parallel: Count = 1
    expert_parallel: Count = 1


class PoolSpec(Layout):
    """Chips of one kind in one role. `count` chips hold as many engines as fit; auto is one engine."""

    chip: Slug
    count: CountOrAuto = "auto"


ROLES = {"none": (), "prefill_decode": ("prefill", "decode"), "attention_ffn": ("attention", "ffn")}


class DisaggregateSpec(Document):
    """`prefill_decode`: a request's prompt is computed in one pool, its KV goes over `link` (`stream` layer: while the
    prompt is computed; whole: afterwards), its answer is decoded in the other. `attention_ffn`: in every layer
    attention runs on one pool and MLP or experts on the other, `micro_batches` of a batch in turn.

    Pools that a kind does not use may be there all the same, so that `kind` can be an axis.
    """

    kind: Literal["none", "prefill_decode", "attention_ffn"] = "none"
    prefill: PoolSpec | None = None
    decode: PoolSpec | None = None
    attention: PoolSpec | None = None
    ffn: PoolSpec | None = None
    link: LinkSpec = LinkSpec()
    stream: Literal["layer", "whole"] = "layer"
    micro_batches: int = Field(default=3, ge=1, le=64)

    @model_validator(mode="before")
    @classmethod
    def a_word_is_its_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def kind_has_its_pools(self) -> Self:
        for role in ROLES[self.kind]:
            if getattr(self, role) is None:
                raise PydanticCustomError(
                    "needed", "{kind} needs the {role} pool",
                    {"field": role, "kind": self.kind, "role": role, "allowed": "{chip: …, count: …}"},
                )  # fmt: skip
        return self

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES[self.kind]

    @property
    def pools(self) -> dict[str, PoolSpec]:
        """Those that the kind uses, by role."""
        return {role: getattr(self, role) for role in self.roles}


class RouterSpec(Document):
    """Which engine gets a request: each in turn, the one with the fewest tokens to do, or the one for which
    `overlap_weight` x prompt tokens that it has not cached + tokens to do are fewest (as NVIDIA Dynamo's KV router)."""

    policy: Literal["round_robin", "least_loaded", "kv_aware"] = "round_robin"
    overlap_weight: float = Field(default=1.0, ge=0, le=100)


class PlacementSpec(Layout):
    """`replicas` engines of the document's `chip`, each laid out alike; or the pools of `disaggregate`. `link` stands
    in for what joins the chips of one engine."""

    replicas: Count = 1
    link: LinkSpec = LinkSpec()
    disaggregate: DisaggregateSpec = DisaggregateSpec()
    router: RouterSpec = RouterSpec()

    @property
    def is_plain(self) -> bool:
        """One engine on one chip, as a measured node has it."""
        return (
            self.replicas == self.data_parallel == self.pipeline_parallel == self.expert_parallel == 1
            and self.tensor_parallel in ("auto", 1)
            and self.disaggregate.kind == "none"
            and self.link == LinkSpec()
        )

    def chips(self, chip: str) -> tuple[str, ...]:
        """The ids of the chips that it names, `chip` being the document's."""
        return tuple(dict.fromkeys(pool.chip for pool in self.disaggregate.pools.values())) or (chip,)

    def main_chip(self, chip: str) -> str:
        """The one that a run is filed under: that of the document, or of the pool that decodes or attends."""
        pools = self.disaggregate.pools
        return next((pools[role].chip for role in ("decode", "attention") if role in pools), chip)
