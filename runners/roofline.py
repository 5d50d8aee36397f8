"""FLOPs and bytes of the steps a run took, against the peaks of the chip it ran on: MFU, MBU and waiting compute.

Counts are of what the model's arithmetic needs, not of what a kernel happens to do: linear layers exactly
(2 FLOPs per weight and token), attention from the KV slots that the running sequences held. Peaks are the node's own
measured ceilings, or the chip record's figures on a modelled node; without peaks every figure is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.events import Report, Step
from runners.precision import BYTES_PER_KV, BYTES_PER_WEIGHT
from runners.spec import RunSpec


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
class LinearWeights:
    """Weights of the linear layers: `dense` ones that every token goes through (attention, dense MLPs, routers), those
    of the output head, and of a mixture, those of one expert, of which a layer has `experts`."""

    dense: int
    head: int
    expert: int = 0
    expert_layers: int = 0
    experts: int = 0
    experts_per_token: int = 0

    def active(self) -> int:
        """Those of the layers that one token is multiplied with."""
        return self.dense + self.expert_layers * self.experts_per_token * self.expert

    def touched(self, num_tokens: int) -> float:
        """Those of the layers that a step of so many tokens reads, as expected."""
        if not self.experts:
            return self.dense
        reached = share_reached(self.experts, self.experts_per_token, num_tokens)
        return self.dense + self.expert_layers * self.experts * reached * self.expert


def share_reached(experts: int, experts_per_token: int, num_tokens: float) -> float:
    """The share of a layer's experts that `num_tokens` tokens reach, as expected if each chooses evenly and by itself:
    1 - (1 - k/E)^T, the coupon collector's expectation. Real routing is uneven and reaches fewer."""
    return float(1.0 - (1.0 - experts_per_token / experts) ** num_tokens)


def linear_weights(shape: Mapping[str, Any]) -> LinearWeights:
    """Of a registered model's shape; keys of a mixture may be null or absent."""
    hidden, layers = int(shape["hidden_size"]), int(shape["layers"])
    heads, kv_heads, head_dim = int(shape["heads"]), int(shape["kv_heads"]), int(shape["head_dim"])
    experts, expert_layers = int(shape.get("experts") or 0), int(shape.get("expert_layers") or 0)
    attention = layers * hidden * head_dim * (2 * heads + 2 * kv_heads)
    mlps = (layers - expert_layers) * 3 * hidden * int(shape["ffn"])
    return LinearWeights(
        dense=attention + mlps + expert_layers * experts * hidden,
        head=hidden * int(shape["vocab_size"]),
        expert=3 * hidden * int(shape.get("expert_ffn") or 0),
        expert_layers=expert_layers,
        experts=experts,
        experts_per_token=int(shape.get("experts_per_token") or 0),
    )


def visible_keys(shape: Mapping[str, Any], context: float) -> float:
    """Keys of a context that all layers together show to its last token: those with a sliding window show less."""
    window, sliding = shape.get("sliding_window"), int(shape.get("sliding_layers") or 0)
    left_behind = max(context - int(window), 0.0) if window else 0.0
    return int(shape["layers"]) * context - sliding * left_behind


def step_cost(step: Step, shape: Mapping[str, Any], weights: str, kv_cache: str) -> StepCost:
    """What one step must compute and move.

    A running sequence's mean context is `kv_used_slots / running`: a decoded token attends to all of it, a prefilled
    one to half on average, and to no more than a layer's sliding window. Attention costs 4 FLOPs per head dimension and
    key (q·k and p·v). Bytes are the weights that the step touches once, the visible keys and values once per running
    sequence, and the new keys and values.
    """
    linear = linear_weights(shape)
    tokens = step.prefill_tokens + step.decode_tokens
    sampled = max(step.decode_tokens, 1)
    context = step.kv_used_slots / step.running if step.running else 0.0
    keys = step.decode_tokens * visible_keys(shape, context) + step.prefill_tokens * visible_keys(shape, context / 2)
    flops = 2.0 * linear.active() * tokens + 2.0 * linear.head * sampled
    flops += 4.0 * int(shape["heads"]) * int(shape["head_dim"]) * keys
    kv_bytes = 2 * int(shape["kv_heads"]) * int(shape["head_dim"]) * BYTES_PER_KV[kv_cache]
    moved = (linear.touched(tokens) + linear.head) * BYTES_PER_WEIGHT[weights]
    moved += kv_bytes * (step.running * visible_keys(shape, context) + int(shape["layers"]) * tokens)
    return StepCost(flops, moved)


def measure_utilisation(steps: Sequence[Step], report: Report, spec: RunSpec) -> Utilisation:
    """MFU and MBU over the busy time of `steps`. Peaks come from `report.facts["peaks"]`:
    `{"flops_per_s": …, "bytes_per_s": …}`, for the precision the run computed in."""
    peaks = report.facts.get("peaks") or {}
    flops_per_s, bytes_per_s = peaks.get("flops_per_s"), peaks.get("bytes_per_s")
    busy_s = sum(step.duration_s for step in steps)
    if not spec.model.shape or not flops_per_s or not bytes_per_s or not busy_s:
        return Utilisation()
    costs = [step_cost(step, spec.model.shape, spec.engine.weights, spec.engine.kv_cache) for step in steps]
    prefill = [i for i, step in enumerate(steps) if step.prefill_tokens and not step.decode_tokens]
    decode = [i for i, step in enumerate(steps) if step.decode_tokens and not step.prefill_tokens]

    def wait(chosen: Sequence[int]) -> float | None:
        time_s = sum(steps[i].duration_s for i in chosen)
        flops = sum(costs[i].flops for i in chosen)
        moved = sum(costs[i].moved_bytes for i in chosen)
        if not time_s or not moved:
            return None
        attainable = min(1.0, flops / moved * bytes_per_s / flops_per_s)
        return float(1 - flops / (flops_per_s * time_s) / attainable)

    return Utilisation(
        mfu=sum(cost.flops for cost in costs) / (flops_per_s * busy_s),
        mbu=sum(cost.moved_bytes for cost in costs) / (bytes_per_s * busy_s),
        prefill_wait=wait(prefill),
        decode_wait=wait(decode),
        prefill_steps=len(prefill),
        decode_steps=len(decode),
    )
