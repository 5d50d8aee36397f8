"""FLOPs and bytes of the steps a run took, against the peaks of the chips it ran on: MFU, MBU and waiting compute.

Counts are of what the model's arithmetic needs, not of what a kernel happens to do: linear layers exactly
(2 FLOPs per weight and token), attention from the KV slots that the running sequences held. Tokens are those computed,
drafts that were checked among them; what a drafter computes is not counted. Peaks are the node's own measured ceilings,
or on a modelled node the chip record's figures, of all chips of the engine that took the step; without peaks, or where
engines or their sides are of unlike chips, every figure is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.events import Report, Step
from runners.precision import BYTES_PER_KV, weight_widths
from runners.spec import RunSpec

LATENT_ROPE_DIM = 64
"""Dimensions of a latent key that carry the position (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""


@dataclass(frozen=True)
class StepCost:
    flops: float
    moved_bytes: float


@dataclass(frozen=True)
class Utilisation:
    """Shares of the peaks over busy time; `*_wait` is 1 − MFU / attainable over the steps of one phase alone."""

    mfu: float | None = None
    mbu: float | None = None
    prefill_wait: float | None = None
    decode_wait: float | None = None
    prefill_steps: int = 0
    decode_steps: int = 0


@dataclass(frozen=True)
class Peaks:
    """Of all chips of one engine."""

    flops_per_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class LinearWeights:
    """Weights of the linear layers: `dense` ones that every token goes through (attention, dense and shared MLPs,
    routers), those of the output head, and of a mixture, those of one expert, of which a layer has `experts`."""

    dense: int
    head: int
    expert: int = 0
    expert_layers: int = 0
    experts: int = 0
    experts_per_token: int = 0

    def active(self) -> int:
        """Those of the layers that one token is multiplied with."""
        return self.dense + self.expert_layers * self.experts_per_token * self.expert

    def routed(self, num_tokens: int) -> float:
        """Those of experts that a step of so many tokens reads, as expected."""
        if not self.experts:
            return 0.0
        reached = share_reached(self.experts, self.experts_per_token, num_tokens)
        return self.expert_layers * self.experts * reached * self.expert

    def touched(self, num_tokens: int) -> float:
        """Those of the layers that a step of so many tokens reads, as expected."""
        return self.dense + self.routed(num_tokens)


def share_reached(experts: int, experts_per_token: int, num_tokens: float) -> float:
    """The share of a layer's experts that `num_tokens` tokens reach, as expected if each chooses evenly and by itself:
    1 - (1 - k/E)^T, the coupon collector's expectation. Real routing is uneven and reaches fewer."""
    return float(1.0 - (1.0 - experts_per_token / experts) ** num_tokens)


def linear_weights(shape: Mapping[str, Any]) -> LinearWeights:
    """Of a registered model's shape; keys of a mixture or of latent attention may be null or absent."""
    hidden, layers = int(shape["hidden_size"]), int(shape["layers"])
    experts, expert_layers = _count(shape, "experts"), _count(shape, "expert_layers")
    mlps = (layers - expert_layers) * int(shape["ffn"]) + expert_layers * _count(shape, "shared_ffn")
    return LinearWeights(
        dense=layers * _attention_weights(shape) + 3 * hidden * mlps + expert_layers * experts * hidden,
        head=hidden * int(shape["vocab_size"]),
        expert=3 * hidden * _count(shape, "expert_ffn"),
        expert_layers=expert_layers,
        experts=experts,
        experts_per_token=_count(shape, "experts_per_token"),
    )


def visible_keys(shape: Mapping[str, Any], context: float) -> float:
    """Keys of a context that all layers together show to its last token: those with a sliding window show less, and
    those without attention none."""
    window, sliding = shape.get("sliding_window"), _count(shape, "sliding_layers")
    left_behind = max(context - int(window), 0.0) if window else 0.0
    return _attending_layers(shape) * context - sliding * left_behind


def step_cost(step: Step, shape: Mapping[str, Any], weights: str, kv_cache: str) -> StepCost:
    """What one step must compute and move.

    A running sequence's mean context is `kv_used_slots / running`: a decoded token attends to all of it, a prefilled
    one to half on average, and to no more than a layer's sliding window. A key costs attention 2 FLOPs per head
    dimension in q·k and 2 in p·v; under latent attention as many per dimension of the latent that a decode works on.
    Bytes are the weights that the step touches once, the visible keys and values once per running sequence, and the new
    keys and values.
    """
    linear, widths = linear_weights(shape), weight_widths(weights, bool(shape.get("experts")))
    checked = step.decode_tokens + step.draft_tokens
    tokens = step.prefill_tokens + checked
    context = step.kv_used_slots / step.running if step.running else 0.0
    flops = 2.0 * linear.active() * tokens + 2.0 * linear.head * max(checked, 1)
    flops += _flops_per_key(shape, decoding=True) * checked * visible_keys(shape, context)
    flops += _flops_per_key(shape, decoding=False) * step.prefill_tokens * visible_keys(shape, context / 2)
    kv_bytes = _kv_elements(shape) * BYTES_PER_KV[kv_cache]
    moved = linear.dense * widths.dense + linear.routed(tokens) * widths.routed + linear.head * widths.head
    moved += kv_bytes * (step.running * visible_keys(shape, context) + _attending_layers(shape) * tokens)
    return StepCost(flops, moved)


def measure_utilisation(steps: Sequence[Step], report: Report, spec: RunSpec) -> Utilisation:
    """MFU and MBU over the busy time of `steps`, each against the peaks of its engine (`peaks_of`)."""
    busy_s = sum(step.duration_s for step in steps)
    peaks = [peaks_of(step.engine, report.facts) for step in steps]
    if not spec.model.shape or not busy_s or None in peaks:
        return Utilisation()
    costs = [step_cost(step, spec.model.shape, spec.engine.weights, spec.engine.kv_cache) for step in steps]
    taken = [(step, cost, peak) for step, cost, peak in zip(steps, costs, peaks, strict=True) if peak is not None]
    prefill = [one for one in taken if one[0].prefill_tokens and not one[0].decode_tokens]
    decode = [one for one in taken if one[0].decode_tokens and not one[0].prefill_tokens]
    return Utilisation(
        mfu=sum(cost.flops / peak.flops_per_s for _, cost, peak in taken) / busy_s,
        mbu=sum(cost.moved_bytes / peak.bytes_per_s for _, cost, peak in taken) / busy_s,
        prefill_wait=_wait(prefill),
        decode_wait=_wait(decode),
        prefill_steps=len(prefill),
        decode_steps=len(decode),
    )


def peaks_of(engine: str | None, facts: Mapping[str, Any]) -> Peaks | None:
    """Peaks for the precision that the run computed in. Of a system's engines those of its pool, by the name that its
    steps carry (`prefill-0`); a run without a system has `facts["peaks"]`, `{"flops_per_s": …, "bytes_per_s": …}`."""
    pools = (facts.get("system") or {}).get("pools") or []
    if not pools:
        return _peaks(facts.get("peaks") or {})
    if len({pool["chip"] for pool in pools}) > 1 or "+" in pools[0]["chip"]:
        return None
    role = engine.rpartition("-")[0] if engine is not None else None
    return _peaks(next((pool for pool in pools if pool["role"] == role), pools[0]))


def _peaks(told: Mapping[str, Any]) -> Peaks | None:
    flops_per_s, bytes_per_s = told.get("flops_per_s"), told.get("bytes_per_s")
    return Peaks(flops_per_s, bytes_per_s) if flops_per_s and bytes_per_s else None


def _wait(taken: Sequence[tuple[Step, StepCost, Peaks]]) -> float | None:
    """1 − MFU / attainable, of which attainable is what the steps' FLOPs per byte let the chips reach."""
    time_s = sum(step.duration_s for step, _, _ in taken)
    compute_s = sum(cost.flops / peak.flops_per_s for _, cost, peak in taken)
    memory_s = sum(cost.moved_bytes / peak.bytes_per_s for _, cost, peak in taken)
    if not time_s or not memory_s:
        return None
    attainable = min(1.0, compute_s / memory_s)
    return 1 - compute_s / time_s / attainable


def _count(shape: Mapping[str, Any], name: str) -> int:
    return int(shape.get(name) or 0)


def _attending_layers(shape: Mapping[str, Any]) -> int:
    return _count(shape, "attention_layers") or int(shape["layers"])


def _attention_weights(shape: Mapping[str, Any]) -> int:
    """Of one layer: q and o, k and v; under latent attention (MLA) its projections down and up, and the query's."""
    hidden, heads, head_dim = int(shape["hidden_size"]), int(shape["heads"]), int(shape["head_dim"])
    latent, through = _count(shape, "kv_latent_dim"), _count(shape, "q_latent_dim")
    if not latent:
        return hidden * head_dim * (2 * heads + 2 * int(shape["kv_heads"]))
    width = heads * head_dim
    query_width = width + heads * LATENT_ROPE_DIM
    query = through * (hidden + query_width) if through else hidden * query_width
    return query + hidden * latent + (latent - LATENT_ROPE_DIM) * 2 * width + width * hidden


def _kv_elements(shape: Mapping[str, Any]) -> int:
    """What a layer keeps of one token."""
    return _count(shape, "kv_latent_dim") or 2 * int(shape["kv_heads"]) * int(shape["head_dim"])


def _flops_per_key(shape: Mapping[str, Any], *, decoding: bool) -> int:
    """Of all heads of a layer. A decode attends to the latent itself, a prefill to the keys made from it."""
    heads, head_dim, latent = int(shape["heads"]), int(shape["head_dim"]), _count(shape, "kv_latent_dim")
    if not latent:
        return 4 * heads * head_dim
    return 2 * heads * (2 * latent - LATENT_ROPE_DIM if decoding else 2 * head_dim + LATENT_ROPE_DIM)
