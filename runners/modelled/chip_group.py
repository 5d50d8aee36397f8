"""Chips of one kind that work on one model together: what a step takes of them, at their peaks and under a tuning.

Of a step, all but attention depends on three counts alone: that part is priced once for each and kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from runners.chips import ChipRecord, NotModellable, attention_flops, linear_flops, linear_units, takes_as_they_lie
from runners.chips.units import WIDE
from runners.modelled.batch import BatchCounter, BatchSums
from runners.modelled.coefficients import Peaks
from runners.modelled.formats import engine_format
from runners.modelled.links import Link
from runners.modelled.parallel import ONE_CHIP, Parallel
from runners.modelled.power import PowerShares
from runners.modelled.quantisation import MatrixWaste
from runners.modelled.shape import TABLE_BYTES_PER_ELEMENT, ModelShape
from runners.modelled.step_model import CostModelError, StepParts
from runners.modelled.tuning import Tuning, link_peaks, tune
from runners.modelled.weighing import WeightBytes
from runners.modelled.work import Counts, Speeds, Splitter, Work, price, soft_max, weight_kernels
from runners.precision import BYTES_PER_KV

BARE_COST_MODEL = "bare-roofline-1"
CALIBRATED_GROUP = 8
MAX_KEPT = 4096
"""Steps of different counts whose unchanging part is kept."""


@dataclass(slots=True)
class Kept:
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
class Task:
    """A step as these chips meet it. `compute_s` and `memory_s` are all of it at the peaks of all of them."""

    kept: Kept
    attention_flops: int
    kv_bytes: int
    attention_s: float
    compute_s: float
    memory_s: float


@dataclass(slots=True)
class _Spread:
    """What attention and power take of a tuning, over all chips: `factor` is from a stage's seconds to all stages',
    `tdp_w` of all chips."""

    factor: float
    knee: float
    kv_bytes_per_s: float
    attention_flops_per_s: float
    kv_s_per_byte: float
    tdp_w: float | None
    power: PowerShares


class ChipGroup:
    """The chips of one engine, or of one side of it; `shape` is what of the model is on them."""

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
        micro_batches: int | None = None,
        collectives: int = 2,
    ) -> None:
        """`chip` is the record of one of the chips. With an engine's `profile`, tuned to it. `link` joins the chips of
        a stage and `stage_link` the stages, where they are not the chip's own. `micro_batches` is into how many a step
        is cut at most: None is one for each stage; `collectives` how many follow in a layer, over chips that split it.

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
        self.flops_per_s = linear * self.chips
        self.bytes_per_s = self.chip_bytes_per_s * self.chips
        self.bytes = WeightBytes(shape, weights, parallel)
        self.kv_element_bytes = BYTES_PER_KV[kv_cache]
        self.counter = BatchCounter(shape, self.kv_element_bytes)
        self.micro_batches = micro_batches or parallel.pp
        fmt = engine_format(weights)
        self.splitter = Splitter(shape, fmt, parallel, 8 * self.kv_element_bytes, unpacks=not self.native)
        self._waste = MatrixWaste(shape, parallel.tp, chip.chip_id)
        self.link, self._stage_link, self._collectives = link, stage_link, collectives
        link_bytes_per_s = link.bytes_per_s if link is not None else link_peaks(chip)[0]
        units = linear_units(chip, weights)
        computes = None if self.native else "bf16" if units in WIDE else units
        peaks = Peaks(self.chip_bytes_per_s, linear, attention, link_bytes_per_s)
        self.tuning = None if profile is None else tune(chip, fmt.name, peaks, profile, computes=computes)

    @property
    def tuning(self) -> Tuning | None:
        """What the engine reaches of the chip's peaks, and spends; None for the bare roofline."""
        return self._tuning

    @tuning.setter
    def tuning(self, tuning: Tuning | None) -> None:
        self._tuning = tuning
        self._speeds = None if tuning is None else self._speeds_here(tuning)
        self._spread = None if tuning is None else self._spread_out(tuning)
        self._kept: dict[tuple[int, int, int], Kept] = {}

    @property
    def chip_ids(self) -> tuple[str, ...]:
        return (self.chip.chip_id,)

    @property
    def chips_by_id(self) -> dict[str, int]:
        return {self.chip.chip_id: self.chips}

    @property
    def resident_bytes(self) -> int:
        """Weights in the memory of the fullest chip."""
        return self.bytes.resident

    @property
    def kv_bytes_per_token(self) -> float:
        """What the cache of one token takes of each chip that holds a part of it."""
        held = self.shape.attending_layers * self.shape.kv_elements_per_layer * self.kv_element_bytes
        return held / self.splitter.kv_chips

    @property
    def idle_w(self) -> float | None:
        """Of all chips while no step runs; None where their power is not stated, or there is no tuning."""
        if self._tuning is None or self.chip.tdp_w is None:
            return None
        return self.chips * self._tuning.power.idle_w(self.chip.tdp_w)

    def facts(self) -> dict[str, Any]:
        """What a result must say of the model that made it."""
        return self._tuning.facts() if self._tuning else {"calibration": "uncalibrated", "cost_model": BARE_COST_MODEL}

    def task_of(self, sums: BatchSums) -> Task:
        """What these chips must do for a step."""
        key = (sums.num_tokens, sums.num_sampled, sums.sequences)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            kept = self._kept[key] = self._price(*key)
        kv_bytes = sums.kv_elements * self.kv_element_bytes
        attention_s = sums.attention_flops / self.attention_flops_per_s / self.chips
        memory_s = (kept.weight_bytes + kv_bytes) / self.bytes_per_s
        return Task(kept, sums.attention_flops, kv_bytes, attention_s, kept.linear_s + attention_s, memory_s)

    def time(self, task: Task) -> StepParts:
        """Seconds that one micro-batch takes through all stages under the tuning; without one, those of the roofline
        for the whole step."""
        spread, kept = self._spread, task.kept
        if spread is None:
            if task.compute_s > task.memory_s:
                return StepParts(task.compute_s, 0.0, 0.0, 0.0)
            return StepParts(0.0, task.memory_s, 0.0, 0.0)
        compute, bandwidth, factor = kept.compute_s, kept.bandwidth_s, spread.factor
        moving_s = task.kv_bytes * kept.share / spread.kv_bytes_per_s
        computing_s = task.attention_flops * kept.share / spread.attention_flops_per_s
        if computing_s > moving_s:
            compute += soft_max(moving_s, computing_s, spread.knee)
        else:
            bandwidth += soft_max(moving_s, computing_s, spread.knee)
        return StepParts(
            compute * factor, bandwidth * factor, kept.link_s * factor + kept.hops_s, kept.overhead_s * factor
        )

    def energy_j(self, task: Task, duration_s: float) -> float | None:
        """Of all these chips while the step takes `duration_s`; None where their power is not stated."""
        spread, kept = self._spread, task.kept
        if spread is None or spread.tdp_w is None:
            return None
        mbu = (kept.moved_s + task.kv_bytes * spread.kv_s_per_byte) / duration_s
        mfu = (kept.flops_s + task.attention_s) / duration_s
        return spread.power.busy_w(spread.tdp_w, mbu, mfu) * duration_s

    def _price(self, num_tokens: int, num_sampled: int, sequences: int) -> Kept:
        """All of a step but its attention."""
        batches = max(min(self.micro_batches, num_tokens), 1)
        share = -(-sequences // self.parallel.dp) / max(sequences, 1) / batches
        linear_flops = self.shape.linear_flops(num_tokens, num_sampled)
        kept = Kept(linear_flops, linear_flops / self.linear_flops_per_s / self.chips,
                      self.bytes.read(num_tokens, num_sampled), share)  # fmt: skip
        if self._speeds is None:
            return kept
        tokens = num_tokens * share
        counts = Counts(tokens, num_sampled * share, sequences * share, 0.0, 0.0, num_tokens / batches)
        work = self.splitter.split(counts)
        work = replace(
            work,
            dense_flops=work.dense_flops / self.splitter.waste * self._waste.times(tokens),
            hops=0.0,
            reduces=work.reduces * self._collectives / 2,
        )
        # Every micro-batch meets head and host once, however many stages it passes.
        once = min(batches / self.parallel.pp, 1.0)
        *body, head = weight_kernels(work, self._speeds)
        for (moving_s, computing_s), times in ((body[0], 1.0), (body[1], 1.0), (head, once)):
            taken_s = times * soft_max(moving_s, computing_s, self._speeds.knee)
            if computing_s > moving_s:
                kept.compute_s += taken_s
            else:
                kept.bandwidth_s += taken_s
        parts = price(work, self._speeds)
        kept.link_s, kept.overhead_s = parts.link_s, parts.overhead_s - (1.0 - once) * self._host_s(work)
        kept.hops_s = self._hops_s(tokens * self.shape.hidden_size * TABLE_BYTES_PER_ELEMENT)
        kept.moved_s = batches * (work.dense_bytes + work.expert_bytes + work.head_bytes) / self.chip_bytes_per_s
        linear_s = (work.dense_flops + work.expert_flops) / self.linear_flops_per_s
        kept.flops_s = batches * (linear_s + work.head_flops / self.attention_flops_per_s)
        return kept

    def _host_s(self, work: Work) -> float:
        """What an engine's host spends on a micro-batch."""
        speeds = self._speeds
        assert speeds is not None
        return float(speeds.step_s + work.sequences * speeds.sequence_s + work.tokens * speeds.token_s)

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
        latency_s = self.link.latency_s if self.link is not None else None
        self._hop_s = tuning.speeds.link_latency_s if latency_s is None else latency_s
        rounds = max(math.log2(self.parallel.tp) / math.log2(CALIBRATED_GROUP), 1.0)
        return replace(tuning.speeds, link_latency_s=self._hop_s * rounds)

    def _spread_out(self, tuning: Tuning) -> _Spread:
        parallel, kv_chips, tdp_w = self.parallel, self.splitter.kv_chips, self.chip.tdp_w
        return _Spread(
            factor=tuning.scope * parallel.pp,
            knee=tuning.speeds.knee,
            kv_bytes_per_s=tuning.speeds.kv_bytes_per_s * kv_chips,
            attention_flops_per_s=tuning.speeds.attention_flops_per_s * parallel.tp * parallel.pp,
            kv_s_per_byte=1.0 / (self.chip_bytes_per_s * kv_chips * parallel.dp),
            tdp_w=None if tdp_w is None else tdp_w * self.chips,
            power=tuning.power,
        )
