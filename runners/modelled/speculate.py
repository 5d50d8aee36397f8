"""Speculative decoding on a cost model: what drafting and checking take, and how much of it is accepted.

A step first drafts, then checks: k draft steps, in each of which every sequence that still drafts has one token, and
one step of the model over 1 + k positions of each sequence, all of them with logits (Leviathan et al. 2023,
arXiv 2211.17192, whose expected tokens per step are (1 - a^(k + 1)) / (1 - a) at an even acceptance a). Drafts come

    ngram   from the text itself: nothing is computed for them
    self    from the first layers of the model and its head, with the keys and values that it has anyway
    draft   from a smaller model on the same chips, split over as many of a group as its heads allow and not into
            stages; it computes prompts too, and its weights and its own cache take memory beside the model's

Draft steps run without the host: of an engine's overheads they have those per layer alone. Where another pool computes
the prompts, a drafter's own cache of them is taken to be there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from runners.modelled.batch import BatchCounter, BatchSums
from runners.modelled.chip_group import ChipGroup
from runners.modelled.cost import CostModel
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape
from runners.modelled.step_model import CostModelError, DecodeSums, Share, StepCost, StepModel
from runners.spec import SpeculationSpec

MASK = (1 << 64) - 1


class Target(StepModel, Protocol):
    """A cost model that prices a batch by its sums."""

    @property
    def counter(self) -> BatchCounter: ...

    def cost_of(self, sums: BatchSums) -> StepCost: ...


@dataclass(slots=True)
class _Span:
    """A sequence's share with its drafts: the positions that are computed of it."""

    start: int
    token_ids: range
    sample: bool
    num_draft_tokens: int = 0


class SpeculativeCostModel:
    """The cost of steps of `target` in which sequences may have drafts; `drafter` computes them, None for drafts that
    cost nothing. Without drafts a step costs what it does without speculation, but for the drafter's prompts."""

    def __init__(
        self, target: Target, drafter: CostModel | None, spec: SpeculationSpec, computes_prompts: bool
    ) -> None:
        self.target, self.drafter, self.spec = target, drafter, spec
        self._prompts = drafter if computes_prompts else None
        self.shape, self.weights, self.native = target.shape, target.weights, target.native
        self.chips, self.chip_ids, self.chips_by_id = target.chips, target.chip_ids, target.chips_by_id
        self.flops_per_s, self.bytes_per_s = target.flops_per_s, target.bytes_per_s
        self.idle_w = target.idle_w

    @property
    def resident_bytes(self) -> int:
        """Weights of both models in the memory of the fullest chip."""
        return self.target.resident_bytes + (self._prompts.resident_bytes if self._prompts else 0)

    def facts(self) -> dict[str, Any]:
        """What a result must say of the model that made it: acceptance and drafts are assumptions of the experiment."""
        told = {"kind": self.spec.kind, "max_draft": self.spec.max_draft, "acceptance": self.spec.acceptance}
        return {**self.target.facts(), "speculation": told}

    def step(self, batch: Iterable[Share]) -> StepCost:
        shares = tuple(batch)
        drafts = sum(share.num_draft_tokens for share in shares)
        if not drafts:
            return self._with_prompts(self.target.step(shares), shares)
        spans = [
            _Span(share.start, range(len(share.token_ids) + share.num_draft_tokens), share.sample) for share in shares
        ]
        sums = self.target.counter.count(spans)
        sums.num_sampled += drafts
        cost = self._with_prompts(self.target.cost_of(sums), shares)
        if self.drafter is not None:
            for drafting in _draft_steps(shares, self._window):
                cost = _both(cost, self.drafter.decode_step(drafting))
        return cost

    def decode_step(self, sums: DecodeSums) -> StepCost:
        """Of a batch of decodes without drafts."""
        return self.target.decode_step(sums)

    @property
    def _window(self) -> int:
        assert self.drafter is not None
        shape = self.drafter.shape
        return shape.sliding_window if shape.sliding_layers else 0

    def _with_prompts(self, cost: StepCost, shares: Sequence[Share]) -> StepCost:
        """A model of its own that drafts has to know the prompts, too."""
        prompts = [
            _Span(share.start, range(len(share.token_ids)), False) for share in shares if len(share.token_ids) > 1
        ]
        return cost if self._prompts is None or not prompts else _both(cost, self._prompts.step(prompts))


def num_accepted(spec: SpeculationSpec, seed: int, first_index: int, num_drafts: int) -> int:
    """How many drafts in a row are accepted, of those for the output tokens from `first_index` on. Drawn from the
    request's seed and each token's index alone, so that a run comes out the same however its steps fall."""
    for position in range(num_drafts):
        if _uniform(seed, first_index + position) >= spec.accepts(position):
            return position
    return num_drafts


def drafter_of(
    spec: SpeculationSpec, group: ChipGroup, target: ModelShape, draft: ModelShape | None, profile: str, kv_cache: str
) -> CostModel | None:
    """What drafts on the chips of `group`; None where drafts cost nothing. `draft` is the smaller model's shape.

    Raises CostModelError for one that can't draft for `target`."""
    if spec.acceptance is None:
        raise CostModelError(
            "a modelled node draws which drafts are accepted, and no chance is given",
            field="engine.speculation.acceptance", allowed="a number from 0 to 1, or one for each position",
        )  # fmt: skip
    if spec.kind == "ngram":
        return None
    shape = _first_layers(target, spec.layers or 0) if spec.kind == "self" else _smaller(draft, target)
    tp = math.gcd(group.parallel.tp, shape.heads)
    parallel = Parallel(tp=tp, dp=group.parallel.dp)
    cost = CostModel(group.chip, shape, group.weights, profile, parallel=parallel, kv_cache=kv_cache, link=group.link)
    tuning = cost.tuning
    assert tuning is not None
    cost.tuning = replace(tuning, speeds=replace(tuning.speeds, step_s=0.0, sequence_s=0.0, token_s=0.0))
    return cost


def _first_layers(target: ModelShape, layers: int) -> ModelShape:
    if not 0 < layers < target.layers:
        raise CostModelError(
            f"{layers} layers can't draft for a model of {target.layers}", field="engine.speculation.layers",
            allowed=f"1 to {target.layers - 1}",
        )  # fmt: skip
    share = layers / target.layers
    return replace(
        target,
        layers=layers,
        expert_layers=max(layers - (target.layers - target.expert_layers), 0),  # Dense layers come first.
        sliding_layers=round(target.sliding_layers * share),
        attention_layers=round(target.attention_layers * share),
        state_elements=round(target.state_elements * share),
    )


def _smaller(draft: ModelShape | None, target: ModelShape) -> ModelShape:
    field = "engine.speculation.model"
    if draft is None:
        raise CostModelError("the run names no model that drafts", field=field, allowed="the name of a smaller model")
    if draft.vocab_size != target.vocab_size:
        raise CostModelError(
            f"its {draft.vocab_size:,} tokens are not the {target.vocab_size:,} of the model that it drafts for",
            field=field, allowed="a model of the same vocabulary",
        )  # fmt: skip
    if draft.parameters >= target.parameters:
        raise CostModelError(
            f"its {draft.parameters:,} parameters are no fewer than those of the model that it drafts for",
            field=field, allowed=f"a model of fewer than {target.parameters:,} parameters",
        )  # fmt: skip
    return draft


def _draft_steps(shares: Sequence[Share], window: int) -> Iterable[DecodeSums]:
    """Each draft step as sums: of every sequence with drafts left, the token after those so far."""
    most = max(share.num_draft_tokens for share in shares)
    for position in range(most):
        lengths = [
            share.start + len(share.token_ids) + position for share in shares if share.num_draft_tokens > position
        ]
        yield DecodeSums(len(lengths), sum(lengths), sum(min(length, window) for length in lengths))


def _both(one: StepCost, other: StepCost) -> StepCost:
    """One after the other, as one step."""
    unknown = one.energy_j is None or other.energy_j is None
    return StepCost(
        linear_flops=one.linear_flops + other.linear_flops,
        attention_flops=one.attention_flops + other.attention_flops,
        weight_bytes=one.weight_bytes + other.weight_bytes,
        kv_bytes=one.kv_bytes + other.kv_bytes,
        compute_s=one.compute_s + other.compute_s,
        memory_s=one.memory_s + other.memory_s,
        duration_s=one.duration_s + other.duration_s,
        parts=one.parts.plus(other.parts),
        energy_j=None if unknown else (one.energy_j or 0.0) + (other.energy_j or 0.0),
    )


def _uniform(seed: int, index: int) -> float:
    """From 0 to 1, of a pair of numbers (splitmix64: Steele et al. 2014, "Fast splittable pseudorandom number
    generators")."""
    state = (seed * 0x9E3779B97F4A7C15 + (index + 1) * 0xD1B54A32D192ED03) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return ((state ^ (state >> 31)) >> 11) / (1 << 53)
