"""How one engine's layout is settled: which cuts a model and its chips allow, and the fewest chips that hold it.

Attention is cut by whole query heads (KV heads that are fewer are copied), pipelines by whole layers, experts by whole
experts. Chips that split each layer between them, or hold experts for each other, speak in every layer: they must be of
one domain of the link that scales the chip up, unless the document or the node states what else joins them. Stages of a
pipeline, groups of a dense model, replicas and pools may lie further apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, isqrt
from typing import Literal, TypeVar

from runners.chips import ChipRecord
from runners.modelled.capacity import DoesNotFit
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.step_model import CostModelError
from runners.spec import Layout

MOST_CHIPS = 100_000
"""Of one engine: as many as a node can offer."""
MOST_TOLD = 64
"""Divisors in one refusal."""

Made = TypeVar("Made")
Has = Literal["all", "attention", "ffn"]


class TopologyError(CostModelError):
    """A layout that no system of those chips has for that model; trying again would change nothing."""

    def __init__(self, field: str, message: str, allowed: str) -> None:
        super().__init__(message, field=field, allowed=allowed)


class Cutter:
    """The rules for one model on chips of one kind, in one role. `path` is the document's path of the layout;
    `joined` says that the link between the chips is stated, so that the domain of their own does not bind. `has` is
    what of the model is on them."""

    def __init__(self, chip: ChipRecord, shape: ModelShape, path: str, joined: bool, has: Has = "all") -> None:
        self.chip, self.shape, self.path, self.joined, self.has = chip, shape, path, joined, has
        self.heads = 0 if has == "ffn" else shape.heads
        self.experts = 0 if has == "attention" else shape.experts

    def check(self, parallel: Parallel) -> None:
        """Raises TopologyError that names the figure at fault."""
        self._check_cuts(parallel)
        self._check_experts(parallel)
        self._check_domain(parallel)

    def _check_cuts(self, parallel: Parallel) -> None:
        if self.heads and self.heads % parallel.tp:
            raise TopologyError(f"{self.path}.tensor_parallel", f"{parallel.tp} chips can't share {self.heads} heads "
                                "evenly", _told(divisors(self.heads)))  # fmt: skip
        if parallel.pp > self.shape.layers:
            raise TopologyError(f"{self.path}.pipeline_parallel", f"{parallel.pp} stages are more than the model's "
                                f"{self.shape.layers} layers", f"1 to {self.shape.layers}")  # fmt: skip

    def _check_experts(self, parallel: Parallel) -> None:
        if parallel.ep == 1:
            return
        field = f"{self.path}.expert_parallel"
        if not self.experts:
            raise TopologyError(field, f"{parallel.ep} chips can't share experts, as there are none here", "1")
        if parallel.group % parallel.ep or self.experts % parallel.ep:
            raise TopologyError(field, f"{self.experts} experts can't lie whole on {parallel.ep} of the "
                                f"{parallel.group} chips (tensor x data parallel)",
                                _told(divisors(gcd(parallel.group, self.experts))))  # fmt: skip

    def _check_domain(self, parallel: Parallel) -> None:
        domain, speaking = self.chip.interconnect.domain_chips, self.speaking(parallel)
        if domain is None or self.joined or speaking <= domain:
            return
        name = "tensor_parallel" if parallel.tp > domain else "data_parallel"
        raise TopologyError(
            f"{self.path}.{name}",
            f"{speaking} chips speak in every layer, and the link of {self.chip.chip_id} joins {domain} "
            "(interconnect.domain_chips)",
            f"at most {domain}; more only over a stated placement.link, or as pipeline stages",
        )

    def speaking(self, parallel: Parallel) -> int:
        """Chips that exchange activations in every layer. Experts that get their tokens from elsewhere do so only with
        chips that split the same ones."""
        if self.has == "ffn":
            return parallel.group // parallel.ep
        return parallel.group if self.experts else parallel.tp

    def settle(
        self, layout: Layout, count: int | None, offered: int | None, make: Callable[[Parallel], Made]
    ) -> tuple[Parallel, Made]:
        """The layout with its `tensor_parallel`, and what `make` gives for it. Where that is auto, the first of 1, 2,
        4… chips, and of `count` at last, for which `make` does not raise DoesNotFit. An engine's chips divide `count`.
        """
        if layout.tensor_parallel != "auto":
            parallel = self._parallel(layout, layout.tensor_parallel)
            self.check(parallel)
            self._check_count(parallel, count)
            return parallel, make(parallel)
        refusal: CostModelError | None = None
        for tp in self._candidates(layout, count, offered):
            try:
                parallel = self._parallel(layout, tp)
                self.check(parallel)
                self._check_count(parallel, count)
                return parallel, make(parallel)
            except DoesNotFit as error:
                refusal = error
            except TopologyError as error:
                refusal = refusal or error
        assert refusal is not None
        raise self._widest(refusal, layout)

    def _candidates(self, layout: Layout, count: int | None, offered: int | None) -> list[int]:
        others = layout.data_parallel * layout.pipeline_parallel
        most = max((count or offered or 1024) // others, 1)
        powers = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
        return powers if count is None or most in powers else [*powers, most]

    def _parallel(self, layout: Layout, tp: int) -> Parallel:
        dp, pp, ep = layout.data_parallel, layout.pipeline_parallel, layout.expert_parallel
        if tp * dp * pp > MOST_CHIPS:
            text = f"an engine of {tp * dp * pp:,} chips (tensor x data x pipeline)"
            largest = max((tp, "tensor_parallel"), (dp, "data_parallel"), (pp, "pipeline_parallel"))[1]
            raise TopologyError(f"{self.path}.{largest}", text, f"at most {MOST_CHIPS:,} chips")
        if tp * dp % ep:
            text = f"{ep} is no divisor of the {tp * dp} chips (tensor x data parallel) that would share the experts"
            raise TopologyError(f"{self.path}.expert_parallel", text, _told(divisors(tp * dp)))
        return Parallel(tp=tp, dp=dp, pp=pp, ep=ep)

    def _check_count(self, parallel: Parallel, count: int | None) -> None:
        if count is not None and count % parallel.chips:
            text = f"{count} chips are no whole number of engines of {parallel.chips} (tensor x data x pipeline)"
            raise TopologyError(f"{self.path}.count", text, f"a multiple of {parallel.chips}")

    def _widest(self, refusal: CostModelError, layout: Layout) -> CostModelError:
        """The refusal, and what would make room, where that is why."""
        if not isinstance(refusal, DoesNotFit):
            return refusal
        apart = f"more expert_parallel (now {layout.expert_parallel}), " if self.has == "ffn" and self.experts else ""
        refusal.allowed += (
            f", which no number of {self.chip.chip_id} reaches by tensor_parallel here; {apart}more pipeline_parallel "
            f"(now {layout.pipeline_parallel}), narrower engine.weights, or a chip with more memory"
        )
        return refusal


def divisors(number: int) -> list[int]:
    """Of a whole number from 1, in order."""
    low = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return low + [number // one for one in reversed(low) if one * one != number]


def _told(sizes: Sequence[int]) -> str:
    shown = ", ".join(map(str, sizes[:MOST_TOLD]))
    return f"{shown}… (up to {sizes[-1]})" if len(sizes) > MOST_TOLD else shown
