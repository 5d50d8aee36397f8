"""What the cost model says of a claim: reproduced, short of it and why, or faster than physics allows and by how much.

A claim is judged twice: against the floor that no system of those chips can beat (every peak reached, nothing else
spent), and against the model under the engine profile that fits it. Only claims with a figure and a stated test can be
judged; a claim of unknown conditions is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from runners.chips import ChipRecord, Claim, NotModellable, in_sram, record_for_run
from runners.modelled.calibration_file import Calibration, own_calibration
from runners.modelled.cases import FITS_SHARE, Load, decode_counts, kv_bits_of, memory_batch, wide_rate
from runners.modelled.coefficients import Peaks
from runners.modelled.facts import ChipFacts, ChipFactsError, facts_of
from runners.modelled.formats import FormatError, NumberFormat, parse_format
from runners.modelled.model_shapes import ModelShapes, own_shapes
from runners.modelled.parallel import Parallel
from runners.modelled.shape import ModelShape, ShapeError
from runners.modelled.tuning import tune
from runners.modelled.work import Parts, Splitter, price

Outcome = Literal["reproduced", "short", "beyond physics", "not judged"]

CONTEXT_TOKENS = 1024.0
UNKNOWN_BAND = math.log(2.0)
"""Either way of a prediction whose error nobody knows."""
BOUNDS = {
    "weights_s": "reading or multiplying the weights",
    "attention_s": "the KV cache and attention",
    "link_s": "the links between chips",
    "overhead_s": "overheads per step, layer and sequence",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`modelled`, its band and `most` (what physics allows) are in the claim's unit; null where it was not judged."""

    outcome: Outcome
    why: str
    modelled: float | None = None
    low: float | None = None
    high: float | None = None
    most: float | None = None
    shares: Mapping[str, float] | None = None


def judge(
    claim: Claim, record: ChipRecord, shapes: ModelShapes | None = None, calibration: Calibration | None = None
) -> Verdict:
    """What the model says of a claim on that chip."""
    test = claim.test
    if claim.figure is None or test is None or claim.metric not in ("tokens_per_s_per_user", "output_tokens_per_s"):
        return Verdict("not judged", "it gives no speed of a stated model on a stated number of chips")
    try:
        record = record_for_run(record, allow_speculative=True)
        if test.memory == "sram":
            record = in_sram(record)
        chip = facts_of(record)
        shape = (shapes or own_shapes()).get(test.model, None, None)
        weights = parse_format(test.weights)
        trial = _Trial(record, chip, shape, weights, test.chips, test.users, calibration or own_calibration())
    except (ChipFactsError, ShapeError, FormatError, NotModellable) as error:
        return Verdict("not judged", str(error))
    return trial.judge(claim.figure, per_user=claim.metric == "tokens_per_s_per_user")


class _Trial:
    """One claim's system under the model."""

    def __init__(
        self,
        record: ChipRecord,
        chip: ChipFacts,
        shape: ModelShape,
        weights: NumberFormat,
        chips: int,
        users: int | None,
        calibration: Calibration,
    ) -> None:
        self._chip, self._chips = chip, chips
        _, rate = weights.rate_of(chip.rate)
        profile = "Kog" if users == 1 and record.kind == "gpu" else "vLLM"
        group = chips if users is not None else _least_chips(shape, weights, chip, chips)
        # Wafers hold a share of the layers each, and hand activations on; chips of a scale-up domain split each layer.
        self._stages = group if record.kind == "wafer" else 1
        layout = Parallel(pp=group) if record.kind == "wafer" else Parallel(tp=group)
        self._replicas = max(chips // group, 1)
        self._splitter = Splitter(shape, weights, layout, kv_bits_of(profile, weights))
        limit = memory_batch(self._splitter, chip, CONTEXT_TOKENS, 0.0, profile)
        self._users = float(users) if users is not None else limit
        self._load = Load(self._users, limit, self._users, CONTEXT_TOKENS, 0.0, 0.0, 0.0)
        peaks = Peaks(chip.bytes_per_s, rate, wide_rate(chip, rate), chip.link_bytes_per_s)
        self._tuning = tune(record, weights.name, peaks, profile, calibration)
        self._rate = rate

    def judge(self, figure: float, per_user: bool) -> Verdict:
        counts = decode_counts(self._splitter.shape, self._load)
        parts = price(self._splitter.split(counts), self._tuning.speeds)
        tokens = 1.0 if per_user else self._users * self._replicas
        modelled = tokens / (float(parts.duration_s) * self._tuning.scope * self._stages)
        most = tokens / self._floor_s()
        low, high = (modelled * math.exp(bound) for bound in self._band())
        shares = _shares(parts)
        if figure > most:
            why = f"{figure / most:.1f} times what {self._chips} x {self._chip.chip_id} can do at 100 % of its peaks"
            return Verdict("beyond physics", why, modelled, low, high, most, shares)
        if figure <= high:
            return Verdict(
                "reproduced", "the claim is within the model's band, or below it", modelled, low, high, most, shares
            )
        most_of = max(shares, key=lambda name: shares[name])
        why = (
            f"the model gives {modelled / figure:.0%} of it; {shares[most_of]:.0%} of a step goes to {BOUNDS[most_of]}"
        )
        return Verdict("short", why, modelled, low, high, most, shares)

    def _floor_s(self) -> float:
        """The least a step can take: all arithmetic at the peak rate, weights and cache once at peak bandwidth."""
        shape, splitter = self._splitter.shape, self._splitter
        flops = 2 * (shape.active_weights + shape.head_weights) * self._users
        touched = shape.experts_touched(self._users) * shape.expert_layers * shape.expert_weights
        weights = (shape.dense_weights + touched + shape.head_weights) * splitter.bytes_each
        cache = self._users * shape.kv_elements_held(int(CONTEXT_TOKENS)) * splitter.kv_bytes
        chips = self._chips / self._replicas
        return max(flops / (self._rate * chips), (weights + cache) / (self._chip.bytes_per_s * chips))

    def _band(self) -> tuple[float, float]:
        error: Mapping[str, Any] | None = self._tuning.errors.get("rate")
        return (error["low"], error["high"]) if error else (-UNKNOWN_BAND, UNKNOWN_BAND)


def _least_chips(shape: ModelShape, weights: NumberFormat, chip: ChipFacts, chips: int) -> int:
    """The fewest chips, by doubling, that hold the weights with room for a cache."""
    total, least = Splitter(shape, weights, Parallel()).resident_bytes(), 1
    while total / least > chip.capacity_bytes * FITS_SHARE and least < chips:
        least *= 2
    return min(least, chips)


def _shares(parts: Parts) -> dict[str, float]:
    return {name: float(getattr(parts, name) / parts.duration_s) for name in BOUNDS}
