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

A batch of decodes is priced from three sums (`DecodeSums`), which its next step changes by additions: so steps in which
a batch stays the same can be taken together, with the same numbers to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable

from runners.modelled.batch import BatchSums
from runners.modelled.chip_group import BARE_COST_MODEL, ChipGroup
from runners.modelled.step_model import CostModelError, DecodeSums, Share, StepCost

__all__ = ["BARE_COST_MODEL", "CostModel", "CostModelError", "DecodeSums", "Share", "StepCost"]


class CostModel(ChipGroup):
    """The cost of any step of one model on the chips of one engine, all alike; without a tuning, the roofline."""

    def step(self, batch: Iterable[Share]) -> StepCost:
        """Bytes: the body's weights once (of experts those that its tokens are expected to reach), the head's once if
        anything is sampled, an embedding row per token, and the cache as `BatchCounter.count` says."""
        return self.cost_of(self.counter.count(batch))

    def decode_step(self, sums: DecodeSums) -> StepCost:
        """The step of a batch of decodes that are all sampled: what `step` gives for it, without looking at each."""
        return self.cost_of(self.counter.count_decodes(sums))

    def cost_of(self, sums: BatchSums) -> StepCost:
        """The step of a batch by its sums."""
        task = self.task_of(sums)
        parts = self.time(task)
        least_s = task.compute_s if task.compute_s > task.memory_s else task.memory_s
        duration_s = parts.total_s
        if duration_s < least_s:
            parts, duration_s = parts.times(least_s / duration_s), least_s
        return StepCost(
            task.kept.linear_flops, task.attention_flops, task.kept.weight_bytes, task.kv_bytes, task.compute_s,
            task.memory_s, duration_s, parts, self.energy_j(task, duration_s),
        )  # fmt: skip
