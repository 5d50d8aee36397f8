"""How long a step takes: the roofline of chips and a model's shape, and the calibration of an engine on them.

Two times are known of each step. The bare roofline is max(FLOPs / peak FLOP/s, bytes / peak bandwidth) of all chips of
the engine: compute and memory fully overlapped, each at its peak, no launch, no synchronisation, nothing sent between
chips (Williams, Waterman, Patterson 2009, "Roofline"); no real system is faster. With a tuning (tuning.py) a step takes
what the formulae of work.py give under its coefficients, and never less than the roofline.

Spread over chips, a batch is dealt out to `dp` groups by whole sequences, and the step takes as long as the fullest.
With `pp` stages it is cut into as many micro-batches, which follow one another through the stages: each stage is then
busy all the time (Huang et al. 2019, "GPipe", without the fill, as the next step's first micro-batch comes behind this
step's last), and a step takes `pp` times what one stage needs for one micro-batch. A collective over more chips than
the eight that calibrations saw pays its latency as often as a recursive doubling has rounds more (Thakur et al. 2005).

Precision: weights use the chip's own units; where it has none, the bytes shrink, each weight is unpacked first, and
the arithmetic runs at the rate of the next ones (runners.chips.units). Attention is computed 16 bits wide on a chip
that has units for it, whatever the cache is kept in.

Of a step, all but attention depends on three counts alone and is kept. A batch of decodes is priced from three sums
(`DecodeSums`), which its next step changes by additions: so steps in which a batch stays the same can be taken
together, with the same numbers to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from runners.chips import ChipRecord, NotModellable, attention_flops, linear_flops, takes_as_they_lie
from runners.modelled.coefficients import Peaks
from runners.modelled.formats import engine_format
from runners.modelled.links import Link
from runners.modelled.parallel import ONE_CHIP, Parallel
from runners.modelled.power import PowerShares
from runners.modelled.shape import TABLE_BYTES_PER_ELEMENT, ModelShape
from runners.modelled.step_model import CostModelError, DecodeSums, Share, StepCost, StepParts
from runners.modelled.tuning import Tuning, link_peaks, tune
from runners.modelled.weighing import WeightBytes
from runners.modelled.work import Counts, Speeds, Splitter, price, soft_max, weight_kernels
from runners.precision import BYTES_PER_KV

__all__ = ["BARE_COST_MODEL", "CostModel", "CostModelError", "DecodeSums", "Share", "StepCost"]

BARE_COST_MODEL = "bare-roofline-1"
CALIBRATED_GROUP = 8
MAX_KEPT = 4096
"""Steps of different counts whose unchanging part is kept."""


@dataclass(slots=True)
class Steady:
    """What of a step's cost does not depend on its contexts. Times are of one stage and one micro-batch; `linear_s`,
    `moved_s` and `flops_s` are what all of it takes at a chip's peaks. `share` is the part of the batch that one
    micro-batch of the fullest group has."""

    linear_flops: int
    linear_s: float
    weight_bytes: int
    share: float
    compute_s: float = 0.0
    bandwidth_s: float = 0.0
    link_s: float = 0.0
    overhead_s: float = 0.0
    hops_s: float = 0.0
    moved_s: float = 0.0
    flops_s: float = 0.0


@dataclass(slots=True)
class _Spread:
    """What attention and power take of a tuning, over all chips: `factor` is from a stage's seconds to the step's,
    `tdp_w` of all chips."""

    factor: float
    knee: float
    kv_bytes_per_s: float
    attention_flops_per_s: float
    kv_s_per_byte: float
    tdp_w: float | None
    power: PowerShares


class CostModel:
    """The cost of any step of one model on the chips of one engine, all alike; without a tuning, the roofline."""

    def __init__(
        self,
        chip: ChipRecord,
        shape: ModelShape,
        weights: str,
        profile: str | None = None,
        *,
        parallel: Parallel = ONE_CHIP,
        kv_cache: str = "bf16",
        link: Link | None = None,
        stage_link: Link | None = None,
    ) -> None:
        """`chip` is the record of one of the chips. With an engine's `profile`, tuned to it. `link` joins the chips of
        a stage and `stage_link` the stages, where they are not the chip's own.

        Raises CostModelError when the chip has no units that compute in `weights`, or no known bandwidth."""
        try:
            linear, attention = linear_flops(chip, weights), attention_flops(chip)
            self.native = takes_as_they_lie(chip, weights)
        except NotModellable as error:
            raise CostModelError(
                f"{chip.chip_id}: {error.message}", field=error.field, allowed=error.allowed
            ) from error
        if attention is None or chip.memory.bandwidth_bytes_per_s is None:
            missing = ", ".join(chip.undisclosed())
            raise CostModelError(f"{chip.chip_id}: {missing} not disclosed", allowed="a chip with all figures")
        self.chip, self.shape, self.weights, self.parallel = chip, shape, weights, parallel
        self.chips = parallel.group * parallel.pp
        self.linear_flops_per_s = linear
        self.attention_flops_per_s = attention
        self.chip_bytes_per_s = chip.memory.bandwidth_bytes_per_s
        self.bytes = WeightBytes(shape, weights, parallel)
        self.kv_element_bytes = BYTES_PER_KV[kv_cache]
        fmt = engine_format(weights)
        self._splitter = Splitter(shape, fmt, parallel, 8 * self.kv_element_bytes, unpacks=not self.native)
        self._state_elements = shape.state_traffic * BYTES_PER_KV["bf16"] // self.kv_element_bytes
        self._link, self._stage_link = link, stage_link
        link_bytes_per_s = link.bytes_per_s if link is not None else link_peaks(chip)[0]
        peaks = Peaks(self.chip_bytes_per_s, linear, attention, link_bytes_per_s)
        self.tuning = None if profile is None else tune(chip, fmt.name, peaks, profile)

    @property
    def tuning(self) -> Tuning | None:
        """What the engine reaches of the chip's peaks, and spends; None for the bare roofline."""
        return self._tuning

    @tuning.setter
    def tuning(self, tuning: Tuning | None) -> None:
        self._tuning = tuning
        self._speeds = None if tuning is None else self._speeds_here(tuning)
        self._spread = None if tuning is None else self._spread_out(tuning)
        self._kept: dict[tuple[int, int, int], Steady] = {}

    @property
    def chip_ids(self) -> tuple[str, ...]:
        return (self.chip.chip_id,)

    @property
    def flops_per_s(self) -> float:
        return self.linear_flops_per_s * self.chips

    @property
    def bytes_per_s(self) -> float:
        return self.chip_bytes_per_s * self.chips

    @property
    def resident_bytes(self) -> int:
        """Weights in the memory of the fullest chip."""
        return self.bytes.resident

    @property
    def kv_bytes_per_token(self) -> float:
        """What the cache of one token takes of each chip that holds a part of it."""
        held = self.shape.attending_layers * self.shape.kv_elements_per_layer * self.kv_element_bytes
        return held / self._splitter.kv_chips

    @property
    def idle_w(self) -> float | None:
        """Of all chips while no step runs; None where their power is not stated, or there is no tuning."""
        if self._tuning is None or self.chip.tdp_w is None:
            return None
        return self.chips * self._tuning.power.idle_w(self.chip.tdp_w)

    def facts(self) -> dict[str, Any]:
        """What a result must say of the model that made it."""
        return self._tuning.facts() if self._tuning else {"calibration": "uncalibrated", "cost_model": BARE_COST_MODEL}

    def step(self, batch: Iterable[Share]) -> StepCost:
        """Bytes: the body's weights once (of experts those that its tokens are expected to reach), the head's once if
        anything is sampled, an embedding row per token, and of each sequence the keys and values of its new tokens
        written once and those of its whole context read once, as METRICS.md counts them."""
        shape = self.shape
        window = shape.sliding_window if shape.sliding_layers else 0
        num_tokens = num_sampled = attention_flops = elements = 0
        decodes = keys = window_keys = sequences = 0
        for share in batch:
            new = len(share.token_ids)
            sequences += 1
            num_sampled += share.sample
            if new == 1:
                decodes += 1
                keys += share.start + 1
                window_keys += min(share.start + 1, window)
                continue
            num_tokens += new
            attention_flops += shape.attention_flops(share.start, new)
            elements += self._elements(1, share.start + new, min(share.start + new, window), new)
        sums = DecodeSums(decodes, keys, window_keys)
        num_tokens += decodes
        attention_flops += self._decode_flops(sums)
        elements += self._elements(decodes, keys, window_keys, decodes)
        return self._cost(num_tokens, num_sampled, sequences, attention_flops, elements)

    def decode_step(self, sums: DecodeSums) -> StepCost:
        """The step of a batch of decodes that are all sampled: what `step` gives for it, without looking at each."""
        number = sums.sequences
        elements = self._elements(number, sums.keys, sums.window_keys, number)
        return self._cost(number, number, number, self._decode_flops(sums), elements)

    def _decode_flops(self, sums: DecodeSums) -> int:
        shape = self.shape
        keys = shape.full_layers * sums.keys + shape.sliding_layers * sums.window_keys
        return shape.flops_per_key(1) * keys

    def _elements(self, sequences: int, keys: int, window_keys: int, new: int) -> int:
        """KV elements moved: the keys read in each layer, the new ones written, and what recurrent states move."""
        shape = self.shape
        read = shape.full_layers * keys + shape.sliding_layers * window_keys
        return shape.kv_elements_per_layer * (read + shape.attending_layers * new) + sequences * self._state_elements

    def _cost(self, num_tokens: int, num_sampled: int, sequences: int, attention_flops: int, elements: int) -> StepCost:
        kept = self._kept.get((num_tokens, num_sampled, sequences)) or self._keep(num_tokens, num_sampled, sequences)
        kv_bytes = elements * self.kv_element_bytes
        attention_s = attention_flops / self.attention_flops_per_s / self.chips
        compute_s = kept.linear_s + attention_s
        memory_s = (kept.weight_bytes + kv_bytes) / self.bytes_per_s
        least_s = compute_s if compute_s > memory_s else memory_s
        if self._spread is None:
            bare = StepParts(least_s, 0.0, 0.0, 0.0) if compute_s > memory_s else StepParts(0.0, least_s, 0.0, 0.0)
            return StepCost(kept.linear_flops, attention_flops, kept.weight_bytes, kv_bytes, compute_s, memory_s,
                            least_s, bare)  # fmt: skip
        spread, compute, bandwidth = self._spread, kept.compute_s, kept.bandwidth_s
        moving_s = kv_bytes * kept.share / spread.kv_bytes_per_s
        computing_s = attention_flops * kept.share / spread.attention_flops_per_s
        if computing_s > moving_s:
            compute += soft_max(moving_s, computing_s, spread.knee)
        else:
            bandwidth += soft_max(moving_s, computing_s, spread.knee)
        factor = spread.factor
        duration_s = factor * (compute + bandwidth + kept.link_s + kept.overhead_s) + kept.hops_s
        hops_s = kept.hops_s
        if duration_s < least_s:
            factor, hops_s = factor * least_s / duration_s, hops_s * least_s / duration_s
            duration_s = least_s
        parts = StepParts(compute * factor, bandwidth * factor, kept.link_s * factor + hops_s, kept.overhead_s * factor)
        energy_j = None
        if spread.tdp_w is not None:
            mbu = (kept.moved_s + kv_bytes * spread.kv_s_per_byte) / duration_s
            mfu = (kept.flops_s + attention_s) / duration_s
            energy_j = spread.power.busy_w(spread.tdp_w, mbu, mfu) * duration_s
        return StepCost(kept.linear_flops, attention_flops, kept.weight_bytes, kv_bytes, compute_s, memory_s,
                        duration_s, parts, energy_j)  # fmt: skip

    def _keep(self, num_tokens: int, num_sampled: int, sequences: int) -> Steady:
        """Prices all of a step but its attention."""
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        kept = self._price(num_tokens, num_sampled, sequences)
        self._kept[num_tokens, num_sampled, sequences] = kept
        return kept

    def _price(self, num_tokens: int, num_sampled: int, sequences: int) -> Steady:
        parallel, shape = self.parallel, self.shape
        batches = max(min(parallel.pp, num_tokens), 1)
        share = -(-sequences // parallel.dp) / max(sequences, 1) / batches
        linear_flops = shape.linear_flops(num_tokens, num_sampled)
        kept = Steady(linear_flops, linear_flops / self.linear_flops_per_s / self.chips,
                      self.bytes.read(num_tokens, num_sampled), share)  # fmt: skip
        if self._speeds is None:
            return kept
        tokens = num_tokens * share
        counts = Counts(tokens, num_sampled * share, sequences * share, 0.0, 0.0, num_tokens / batches)
        work = replace(self._splitter.split(counts), hops=0.0)
        for moving_s, computing_s in weight_kernels(work, self._speeds):
            taken_s = soft_max(moving_s, computing_s, self._speeds.knee)
            if computing_s > moving_s:
                kept.compute_s += taken_s
            else:
                kept.bandwidth_s += taken_s
        parts = price(work, self._speeds)
        kept.link_s, kept.overhead_s = parts.link_s, parts.overhead_s
        kept.hops_s = self._hops_s(tokens * shape.hidden_size * TABLE_BYTES_PER_ELEMENT)
        kept.moved_s = batches * (work.dense_bytes + work.expert_bytes + work.head_bytes) / self.chip_bytes_per_s
        linear_s = (work.dense_flops + work.expert_flops) / self.linear_flops_per_s
        kept.flops_s = batches * (linear_s + work.head_flops / self.attention_flops_per_s)
        return kept

    def _hops_s(self, activation_bytes: float) -> float:
        """What a micro-batch's way from stage to stage takes."""
        hops = self.parallel.pp - 1
        if not hops or self._speeds is None:
            return 0.0
        link = self._stage_link
        bytes_per_s = self._speeds.link_bytes_per_s if link is None else link.bytes_per_s
        latency_s = None if link is None else link.latency_s
        return hops * (activation_bytes / bytes_per_s + (self._hop_s if latency_s is None else latency_s))

    def _speeds_here(self, tuning: Tuning) -> Speeds:
        """The tuning's speeds, over the link that joins these chips."""
        latency_s = self._link.latency_s if self._link is not None else None
        self._hop_s = tuning.speeds.link_latency_s if latency_s is None else latency_s
        rounds = max(math.log2(self.parallel.tp) / math.log2(CALIBRATED_GROUP), 1.0)
        return replace(tuning.speeds, link_latency_s=self._hop_s * rounds)

    def _spread_out(self, tuning: Tuning) -> _Spread:
        parallel, kv_chips, tdp_w = self.parallel, self._splitter.kv_chips, self.chip.tdp_w
        return _Spread(
            factor=tuning.scope * parallel.pp,
            knee=tuning.speeds.knee,
            kv_bytes_per_s=tuning.speeds.kv_bytes_per_s * kv_chips,
            attention_flops_per_s=tuning.speeds.attention_flops_per_s * parallel.tp * parallel.pp,
            kv_s_per_byte=1.0 / (self.chip_bytes_per_s * kv_chips * parallel.dp),
            tdp_w=None if tdp_w is None else tdp_w * self.chips,
            power=tuning.power,
        )
