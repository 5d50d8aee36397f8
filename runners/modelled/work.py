"""The work of a step on one chip: what its scheduler chose, spread over chips, as bytes, FLOPs and messages.

Three values, each made from the one before: `Counts` of a batch (no chip, no format), `Work` of one chip (no speeds),
and seconds (`price`). All are plain arithmetic on floats or on numpy arrays alike, so that one step of a run, and all
rows of a calibration at once, go through the same formulae.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from runners.modelled.formats import NumberFormat
from runners.modelled.parallel import Parallel
from runners.modelled.shape import TABLE_BYTES_PER_ELEMENT, ModelShape

Number = Any
"""A float, or an array of them: the arithmetic is the same."""

TILE_OUTPUTS = 128
TILE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Counts:
    """A batch, summed: new tokens, sampled positions, sequences, KV elements to read and write, attention FLOPs.

    `all_tokens` are those of all data-parallel groups where the others have not as many as this one."""

    tokens: float
    sampled: float
    sequences: float
    kv_elements: float
    attention_flops: float
    all_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What one chip does in a step. `*_bytes` come from memory, `unpacked` are weights without native units,
    `reduces` all-reduces of `reduce_bytes` over `tp` chips, `exchanges` all-to-alls of `exchange_bytes` over `group`
    chips; `layers` and `expert_layers` count what is launched, `sequences` what is scheduled and sampled."""

    dense_bytes: Number
    dense_flops: Number
    expert_bytes: Number
    expert_flops: Number
    head_bytes: Number
    head_flops: Number
    kv_bytes: Number
    attention_flops: Number
    unpacked: Number
    layers: Number
    expert_layers: Number
    sequences: Number
    tokens: Number
    reduces: Number
    reduce_bytes: Number
    tp: Number
    exchanges: Number
    exchange_bytes: Number
    group: Number
    hops: Number


@dataclass(frozen=True, slots=True)
class Speeds:
    """What a chip under an engine reaches: rates after efficiency, and overheads in seconds.

    `knee` is the exponent of the smooth maximum of a kernel's compute and memory times: infinite would be the
    roofline itself; a real kernel is slower than both roofs where they meet.
    """

    bytes_per_s: Number
    kv_bytes_per_s: Number
    flops_per_s: Number
    expert_flops_per_s: Number
    head_flops_per_s: Number
    attention_flops_per_s: Number
    unpack_per_s: Number
    link_bytes_per_s: Number
    link_latency_s: Number
    layer_s: Number
    expert_layer_s: Number
    step_s: Number
    sequence_s: Number
    token_s: Number
    knee: Number


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of a step by what they were spent on."""

    weights_s: Number
    attention_s: Number
    link_s: Number
    overhead_s: Number

    @property
    def duration_s(self) -> Number:
        return self.weights_s + self.attention_s + self.link_s + self.overhead_s


def tiles(count: Number, tile: int) -> Number:
    """`count` rounded up to whole tiles: the rest of the last one is computed and thrown away (NVIDIA, "Matrix
    multiplication background user's guide", tile quantisation)."""
    return np.ceil(count / tile) * tile if isinstance(count, np.ndarray) else -(-count // tile) * tile


class Splitter:
    """Spreads the counts of one model's batches, its weights in one format, over the chips of one replica."""

    def __init__(self, shape: ModelShape, weights: NumberFormat, parallel: Parallel, kv_bits: float | None = None,
                 unpacks: bool = False) -> None:  # fmt: skip
        self.shape, self.weights, self.parallel = shape, weights, parallel
        self.kv_bytes = (kv_bits or weights.kv_bits) / 8
        self.dense_bytes_each = (weights.dense_bits if shape.experts and weights.dense_bits else weights.bits) / 8
        self.bytes_each = weights.bits / 8
        # GGUF files have their head in the body's format; other checkpoints leave head and embedding 16 bits wide.
        self.head_bytes_each = self.bytes_each if weights.name.startswith("q") else float(TABLE_BYTES_PER_ELEMENT)
        self.unpacks = unpacks
        # Of one group, those that the cache of a sequence is split over: further ones hold copies.
        kv_heads = 1 if shape.kv_latent_dim else max(shape.kv_heads, 1)
        self.kv_chips = min(parallel.tp, kv_heads) * parallel.pp
        self.waste = self._tile_waste()

    def split(self, counts: Counts) -> Work:
        """`counts` are of one data-parallel group's batch; each of the `dp` groups has one like it, or as `all_tokens`
        says.

        Attention weights and the head are split over `tp` chips, experts over all of `tp x dp`; an all-reduce follows
        attention and MLP of each layer (Shoeybi et al. 2019, Megatron-LM), and where experts lie on other chips than
        the tokens each expert layer sends tokens out and back.
        """
        shape, parallel = self.shape, self.parallel
        tp, dp, group, pp = parallel.tp, parallel.dp, parallel.group, parallel.pp
        all_tokens = counts.tokens * dp if counts.all_tokens is None else counts.all_tokens
        if parallel.ep > 1:
            touched = shape.experts_touched_most(all_tokens, parallel.ep) * parallel.ep
        else:
            touched = shape.experts_touched(all_tokens)
        touched *= shape.expert_layers * shape.expert_weights
        routed = shape.experts_per_token * shape.expert_layers * shape.expert_weights
        padded = tiles(counts.tokens, TILE_TOKENS)
        dense = shape.dense_weights / (tp * pp)
        activations = counts.tokens * shape.hidden_size * TABLE_BYTES_PER_ELEMENT
        exchanged = shape.expert_layers > 0 and dp > 1
        expert_bytes = touched * self.bytes_each / (group * pp)
        return Work(
            dense_bytes=dense * self.dense_bytes_each + activations / tp,
            dense_flops=2 * dense * padded * self.waste,
            expert_bytes=expert_bytes,
            expert_flops=2 * routed * max(all_tokens, 1.0) / (group * pp),
            head_bytes=shape.head_weights * self.head_bytes_each / tp if counts.sampled else 0.0,
            head_flops=2 * shape.head_weights / tp * tiles(counts.sampled, TILE_TOKENS),
            kv_bytes=counts.kv_elements * self.kv_bytes / self.kv_chips,
            attention_flops=counts.attention_flops / (tp * pp),
            unpacked=(dense + expert_bytes / self.bytes_each) if self.unpacks else 0.0,
            layers=shape.layers / pp,
            expert_layers=shape.expert_layers / pp,
            sequences=counts.sequences,
            tokens=counts.tokens,
            reduces=2 * shape.layers / pp if tp > 1 else 0.0,
            reduce_bytes=activations,
            tp=float(tp),
            exchanges=2 * shape.expert_layers / pp if exchanged else 0.0,
            exchange_bytes=activations * max(min(shape.experts_per_token, group), 1) / tp,
            group=float(group),
            hops=float(pp - 1),
        )

    def resident_bytes(self) -> float:
        """Weights that one chip of the replica holds."""
        shape, parallel = self.shape, self.parallel
        tables = shape.head_weights * (1 if shape.tied_embeddings else 2) * self.head_bytes_each / parallel.tp
        dense = shape.dense_weights * self.dense_bytes_each / (parallel.tp * parallel.pp)
        return dense + shape.routed_weights * self.bytes_each / (parallel.group * parallel.pp) + tables

    def _tile_waste(self) -> float:
        """FLOPs done over FLOPs asked for, as widths of a chip's share are rounded up to whole tiles."""
        shape, tp = self.shape, self.parallel.tp
        asked = done = 0.0
        for width, times in (
            (shape.head_dim * (shape.heads + 2 * shape.kv_heads), 1.0),
            (shape.hidden_size * tp, 1.0),
            (2 * (shape.ffn or shape.shared_ffn or shape.expert_ffn), 1.0),
        ):
            asked += width / tp * times
            done += tiles(width / tp, TILE_OUTPUTS) * times
        return done / asked


def price(work: Work, speeds: Speeds) -> Parts:
    """Seconds of the step.

    Kernels run one after another: the dense matrices, the experts, the head and attention each take the smooth maximum
    of their compute and their memory time (Williams et al. 2009, "Roofline"; the exponent softens its knee). A ring
    all-reduce of m bytes over n chips moves 2 (n - 1)/n m over each link in 2 (n - 1) hops (Thakur et al. 2005);
    an all-to-all moves (n - 1)/n m. What an engine spends per step, layer, sequence and token comes on top.
    """
    knee = speeds.knee
    dense, expert, head = weight_kernels(work, speeds)
    weights_s = soft_max(*dense, knee) + soft_max(*expert, knee) + soft_max(*head, knee)
    attention_s = soft_max(
        work.kv_bytes / speeds.kv_bytes_per_s, work.attention_flops / speeds.attention_flops_per_s, knee
    )
    ring, others = (work.tp - 1) / work.tp, (work.group - 1) / work.group
    link_s = (
        work.reduces * (speeds.link_latency_s + 2 * ring * work.reduce_bytes / speeds.link_bytes_per_s)
        + work.exchanges * (speeds.link_latency_s + others * work.exchange_bytes / speeds.link_bytes_per_s)
        + work.hops * (speeds.link_latency_s + work.reduce_bytes / speeds.link_bytes_per_s)
    )
    overhead_s = (
        speeds.step_s
        + work.layers * speeds.layer_s
        + work.expert_layers * speeds.expert_layer_s
        + work.sequences * speeds.sequence_s
        + work.tokens * speeds.token_s
    )
    return Parts(weights_s, attention_s, link_s, overhead_s)


def weight_kernels(work: Work, speeds: Speeds) -> tuple[tuple[Number, Number], ...]:
    """Memory and compute seconds of the dense matrices, of the experts and of the head."""
    dense_s = work.dense_flops / speeds.flops_per_s + work.unpacked / speeds.unpack_per_s
    return (
        (work.dense_bytes / speeds.bytes_per_s, dense_s),
        (work.expert_bytes / speeds.bytes_per_s, work.expert_flops / speeds.expert_flops_per_s),
        (work.head_bytes / speeds.bytes_per_s, work.head_flops / speeds.head_flops_per_s),
    )


def stack(works: list[Work]) -> Work:
    """Many steps' work as one of arrays."""
    return Work(**{item.name: np.array([getattr(work, item.name) for work in works], float) for item in fields(Work)})


def soft_max(one: Number, other: Number, knee: Number) -> Number:
    """The greater of two times, with a soft knee where they meet."""
    return (one**knee + other**knee) ** (1 / knee)
