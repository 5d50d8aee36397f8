"""A step of an engine whose attention runs on one kind of chips and whose MLPs or experts run on another.

In each layer a micro-batch is attended to (A), sent over (C), multiplied (F) and sent back (C'). With m micro-batches
in turn, and X the longest of the four per micro-batch and layer, a layer takes max(m X, A + F + C + C'), and a step of
L layers that for all but one, once around, and the tail of the last m - 1 micro-batches:

    (L - 1) max(m X, A + F + C + C') + (A + F + C + C') + (m - 1) X

which for balanced sides is the latency of MegaScale-Infer (Zhu et al. 2025, arXiv 2504.02263, section 4) and for one
micro-batch the sum of all; Step-3 (arXiv 2507.19427) cuts models the same way. Sending and receiving are of two
directions of one link, and overlap. A token crosses once for each of the chips that its experts lie on, and comes back
so unless those chips add up their parts first. The attention side has attention, norms, embedding, head and KV cache;
the other all MLPs, shared experts, routers and experts. An engine's overhead per layer falls half on either side, what
it spends per step, sequence and token on the attention side.

No published result was fitted on: what both sides take alone has its calibration, how they take turns has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from runners.modelled.batch import BatchSums
from runners.modelled.chip_group import ChipGroup
from runners.modelled.links import TRANSFER_SHARE, Link
from runners.modelled.shape import TABLE_BYTES_PER_ELEMENT, ModelShape
from runners.modelled.step_model import DecodeSums, Share, StepCost, StepParts


def attention_half(shape: ModelShape) -> ModelShape:
    """What of a model the attention side holds."""
    return replace(shape, ffn=0, shared_ffn=0, expert_ffn=0, expert_layers=0)


def ffn_half(shape: ModelShape) -> ModelShape:
    """What of a model the other side holds."""
    return replace(shape, heads=0, kv_heads=0, kv_latent_dim=0, q_latent_dim=0, vocab_size=0)


class SplitCostModel:
    """The cost of any step of such an engine."""

    def __init__(
        self, shape: ModelShape, attention: ChipGroup, ffn: ChipGroup, between: Link, micro_batches: int
    ) -> None:
        """`attention` and `ffn` are tuned groups with the model's two halves, each cutting a step into `micro_batches`;
        `between` is the link of one chip of either side to the other."""
        self.shape, self.attention, self.ffn, self.between = shape, attention, ffn, between
        self.counter, self.micro_batches = attention.counter, micro_batches
        self.weights, self.native = attention.weights, attention.native and ffn.native
        self.chips = attention.chips + ffn.chips
        self.flops_per_s = attention.flops_per_s + ffn.flops_per_s
        self.bytes_per_s = attention.bytes_per_s + ffn.bytes_per_s
        self._step_s = _halve(attention, hosts=True)
        _halve(ffn, hosts=False)
        spread = min(shape.experts_per_token, ffn.parallel.ep) if shape.experts else 1
        copies = 1 + (spread - 1) * shape.expert_layers / shape.layers
        returned = copies if ffn.parallel.ep == ffn.parallel.group else 1.0
        token_s = shape.hidden_size * TABLE_BYTES_PER_ELEMENT / (
            between.bytes_per_s * TRANSFER_SHARE * min(attention.chips, ffn.chips)
        )  # fmt: skip
        self._out_s, self._back_s = token_s * copies, token_s * returned
        self._hop_s = between.latency_s or 0.0

    @property
    def chip_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.attention.chip_ids + self.ffn.chip_ids))

    @property
    def chips_by_id(self) -> dict[str, int]:
        counts = dict.fromkeys(self.chip_ids, 0)
        for side in (self.attention, self.ffn):
            counts[side.chip.chip_id] += side.chips
        return counts

    @property
    def resident_bytes(self) -> int:
        """Weights in the memory of the fullest chip of the attention side, which has the cache beside them."""
        return self.attention.resident_bytes

    @property
    def idle_w(self) -> float | None:
        """Of both sides; None where the power of one is not stated."""
        one, other = self.attention.idle_w, self.ffn.idle_w
        return None if one is None or other is None else one + other

    def facts(self) -> dict[str, Any]:
        """What a result must say of the model that made it: nobody knows how far off such a system is."""
        one, other = self.attention.facts(), self.ffn.facts()
        scopes = [one["calibration_scope"], other["calibration_scope"]]
        told = {"engine": scopes[0]["engine"], "precision": scopes[0]["precision"]}
        told["family"] = "+".join(dict.fromkeys(scope["family"] for scope in scopes))
        told["fitted_on"] = f"attention: {scopes[0]['fitted_on']}; FFN: {scopes[1]['fitted_on']}; not on such a system"
        return {**one, "calibration": "uncalibrated", "calibration_scope": told, "calibration_errors": {}}

    def step(self, batch: Iterable[Share]) -> StepCost:
        return self.cost_of(self.counter.count(batch))

    def decode_step(self, sums: DecodeSums) -> StepCost:
        return self.cost_of(self.counter.count_decodes(sums))

    def cost_of(self, sums: BatchSums) -> StepCost:
        """The step of a batch by its sums."""
        attended = self.attention.task_of(sums)
        multiplied = self.ffn.task_of(BatchSums(sums.num_tokens, 0, sums.sequences, 0, 0))
        parts = self._in_turn(sums.num_tokens, self.attention.time(attended), self.ffn.time(multiplied))
        compute_s = max(attended.compute_s, multiplied.compute_s)
        memory_s = max(attended.memory_s, multiplied.memory_s)
        duration_s, least_s = parts.total_s, max(compute_s, memory_s)
        if duration_s < least_s:
            parts, duration_s = parts.times(least_s / duration_s), least_s
        one, other = self.attention.energy_j(attended, duration_s), self.ffn.energy_j(multiplied, duration_s)
        return StepCost(
            linear_flops=attended.kept.linear_flops + multiplied.kept.linear_flops,
            attention_flops=attended.attention_flops,
            weight_bytes=attended.kept.weight_bytes + multiplied.kept.weight_bytes,
            kv_bytes=attended.kv_bytes,
            compute_s=compute_s,
            memory_s=memory_s,
            duration_s=duration_s,
            parts=parts,
            energy_j=None if one is None or other is None else one + other,
        )

    def _in_turn(self, num_tokens: int, attention: StepParts, ffn: StepParts) -> StepParts:
        """The step's seconds from those of one micro-batch on either side, through all layers. While the sides work
        ahead of one another, time is spent on what the longest of them spends it on; else on all of the way around."""
        layers = self.shape.layers
        batches = max(min(self.micro_batches, num_tokens), 1)
        out_s = self._hop_s + self._out_s * num_tokens / batches
        back_s = self._hop_s + self._back_s * num_tokens / batches
        attention_s, ffn_s, crossing_s = attention.total_s / layers, ffn.total_s / layers, max(out_s, back_s)
        longest_s = max(attention_s, ffn_s, crossing_s)
        arounds, turns = 1, batches - 1
        if batches * longest_s >= attention_s + ffn_s + out_s + back_s:
            turns += batches * (layers - 1)
        else:
            arounds += layers - 1
        of_attention = (arounds + (turns if longest_s == attention_s else 0)) / layers
        of_ffn = (arounds + (turns if longest_s == ffn_s != attention_s else 0)) / layers
        links_s = arounds * (out_s + back_s)
        if longest_s not in (attention_s, ffn_s):
            links_s += turns * crossing_s
        return StepParts(
            attention.compute_s * of_attention + ffn.compute_s * of_ffn,
            attention.bandwidth_s * of_attention + ffn.bandwidth_s * of_ffn,
            attention.link_s * of_attention + ffn.link_s * of_ffn + links_s,
            attention.overhead_s * of_attention + ffn.overhead_s * of_ffn + self._step_s,
        )


def _halve(side: ChipGroup, hosts: bool) -> float:
    """Takes from a side's tuning what the other spends, and what is spent once a step; gives the latter, in seconds."""
    tuning = side.tuning
    assert tuning is not None
    speeds = tuning.speeds
    halved = replace(speeds, layer_s=speeds.layer_s / 2, step_s=0.0)
    if not hosts:
        halved = replace(halved, sequence_s=0.0, token_s=0.0)
    side.tuning = replace(tuning, speeds=halved)
    return float(tuning.scope * speeds.step_s)
