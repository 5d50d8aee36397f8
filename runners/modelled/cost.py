"""How long a step takes: the roofline of a chip record and a model's shape, and the calibration of an engine on it.

Two times are known of each step. The bare roofline is max(FLOPs / peak FLOP/s, bytes / peak bandwidth): compute and
memory fully overlapped, each at its peak, no launch, no synchronisation, activations never leaving the chip (Williams,
Waterman, Patterson 2009, "Roofline"); no real chip is faster. With a tuning (tuning.py) a step takes what the formulae
of work.py give under its coefficients, and never less than the roofline.

Precision: int8 weights (W8A8) use the chip's own int8 units; where it has none, the bytes shrink and the arithmetic
runs at the rate of the next ones (runners.chips.units). The KV cache is bf16 always, and attention too on a chip that
has units for it.

A batch of decodes alone is priced from four sums (`DecodeSums`), which its next step changes by additions: so steps in
which a batch stays the same can be taken together, with the same numbers to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from runners.chips import ChipRecord, NotModellable, attention_flops, linear_flops
from runners.modelled.coefficients import Peaks
from runners.modelled.formats import FORMATS
from runners.modelled.parallel import Parallel
from runners.modelled.shape import KV_BYTES_PER_ELEMENT, TABLE_BYTES_PER_ELEMENT, ModelShape
from runners.modelled.tuning import link_peaks, tune
from runners.modelled.work import Counts, Parts, Splitter, price
from runners.precision import BYTES_PER_WEIGHT

BARE_COST_MODEL = "bare-roofline-1"
SCALE_BYTES = 4

WeightFormat = Literal["bf16", "int8"]


class CostModelError(ValueError):
    """The chip or the model can't be modelled as asked; trying again would change nothing."""

    retry = False


class Share(Protocol):
    """What a step computes of one sequence: tokens at positions `start …`, sampled after the last or not."""

    @property
    def start(self) -> int: ...
    @property
    def token_ids(self) -> tuple[int, ...]: ...
    @property
    def sample(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step must compute and move, and the time each takes at the chip's peak."""

    linear_flops: int
    attention_flops: int
    weight_bytes: int
    kv_bytes: int
    compute_s: float
    memory_s: float
    parts: Parts | None = None
    scope: float = 1.0

    @property
    def roofline_s(self) -> float:
        return max(self.compute_s, self.memory_s)

    @property
    def duration_s(self) -> float:
        if self.parts is None:
            return self.roofline_s
        return max(self.scope * float(self.parts.duration_s), self.roofline_s)

    @property
    def bound(self) -> Literal["compute", "memory"]:
        return "compute" if self.compute_s > self.memory_s else "memory"


@dataclass(frozen=True, slots=True)
class DecodeSums:
    """A batch in which every sequence decodes one token: how many, and the keys that they attend to in a layer that
    sees all of the context, and in one with a sliding window."""

    sequences: int
    keys: int
    window_keys: int

    def next(self, steps: int = 1) -> DecodeSums:
        """The same batch `steps` later, where no sequence grows past the window meanwhile."""
        return DecodeSums(self.sequences, self.keys + steps * self.sequences, self.window_keys)


class CostModel:
    """The cost of any step of one model on one chip, with weights in one format; without a tuning, the roofline."""

    def __init__(self, chip: ChipRecord, shape: ModelShape, weights: WeightFormat, profile: str | None = None) -> None:
        """With an engine's `profile`, tuned to it.

        Raises CostModelError when the chip has no units that compute in `weights`, or no known bandwidth."""
        try:
            linear, attention = linear_flops(chip, weights), attention_flops(chip)
        except NotModellable as error:
            raise CostModelError(str(error)) from error
        if attention is None or chip.memory.bandwidth_bytes_per_s is None:
            missing = ", ".join(chip.undisclosed())
            raise CostModelError(f"{chip.chip_id}: {missing} not disclosed; allowed: a chip with all figures")
        self.chip = chip
        self.shape = shape
        self.weights: WeightFormat = weights
        self.native = chip.peak_flops(weights) is not None
        self.linear_flops_per_s = linear
        self.attention_flops_per_s = attention
        self.bytes_per_s = chip.memory.bandwidth_bytes_per_s
        self._body_bytes = self._matrix_bytes(shape.body_weights, shape.body_outputs)
        self._routed_share = shape.routed_weights / shape.body_weights
        self._norm_bytes = shape.norm_weights * TABLE_BYTES_PER_ELEMENT
        self._head_bytes = self._matrix_bytes(shape.head_weights, shape.vocab_size)
        self._table_bytes = shape.head_weights * TABLE_BYTES_PER_ELEMENT
        self._splitter = Splitter(shape, FORMATS[weights], Parallel(), FORMATS["bf16"].bits)
        link_bytes_per_s, _ = link_peaks(chip)
        peaks = Peaks(self.bytes_per_s, linear, attention, link_bytes_per_s)
        self.tuning = None if profile is None else tune(chip, weights, peaks, profile)

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
        attention_flops, number = self._decode_flops(sums), sums.sequences
        elements = self._elements(number, sums.keys, sums.window_keys, number)
        return self._cost(number, number, number, attention_flops, elements)

    def _decode_flops(self, sums: DecodeSums) -> int:
        shape = self.shape
        keys = shape.full_layers * sums.keys + shape.sliding_layers * sums.window_keys
        return shape.flops_per_key(1) * keys

    def _elements(self, sequences: int, keys: int, window_keys: int, new: int) -> int:
        """KV elements moved: the keys read in each layer, the new ones written, and what recurrent states move."""
        shape = self.shape
        read = shape.full_layers * keys + shape.sliding_layers * window_keys
        return shape.kv_elements_per_layer * (read + shape.attending_layers * new) + sequences * shape.state_traffic

    def _cost(self, num_tokens: int, num_sampled: int, sequences: int, attention_flops: int, elements: int) -> StepCost:
        shape = self.shape
        linear_flops = shape.linear_flops(num_tokens, num_sampled)
        weight_bytes = self._touched_bytes(num_tokens) + self._norm_bytes + (self._head_bytes if num_sampled else 0)
        weight_bytes += num_tokens * shape.hidden_size * TABLE_BYTES_PER_ELEMENT
        kv_bytes = elements * KV_BYTES_PER_ELEMENT
        tuning, parts = self.tuning, None
        if tuning is not None:
            counts = Counts(num_tokens, num_sampled, sequences, elements, attention_flops)
            parts = price(self._splitter.split(counts), tuning.speeds)
        return StepCost(
            linear_flops=linear_flops,
            attention_flops=attention_flops,
            weight_bytes=weight_bytes,
            kv_bytes=kv_bytes,
            compute_s=linear_flops / self.linear_flops_per_s + attention_flops / self.attention_flops_per_s,
            memory_s=(weight_bytes + kv_bytes) / self.bytes_per_s,
            parts=parts,
            scope=tuning.scope if tuning is not None else 1.0,
        )

    def _touched_bytes(self, num_tokens: int) -> int:
        """Bytes of the body's weights that a step of so many tokens reads."""
        shape = self.shape
        if not shape.experts:
            return self._body_bytes
        unread = 1.0 - shape.experts_touched(num_tokens) / shape.experts
        return round(self._body_bytes * (1.0 - self._routed_share * unread))

    @property
    def resident_bytes(self) -> int:
        """Weights in memory. A tied bf16 head is the embedding table itself; an int8 head is a copy beside it."""
        shared = self.shape.tied_embeddings and self.weights == "bf16"
        tables = self._table_bytes if shared else self._table_bytes + self._head_bytes
        return self._body_bytes + self._norm_bytes + tables

    def _matrix_bytes(self, elements: int, outputs: int) -> int:
        scales = SCALE_BYTES * outputs if self.weights == "int8" else 0
        return elements * BYTES_PER_WEIGHT[self.weights] + scales
