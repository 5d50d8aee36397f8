"""How a model is spread over chips: tensor, pipeline, expert and data parallel, and replicas of the whole.

Attention is split over `tp` chips and repeated in `dp` groups, each with its own sequences; the experts are split over
all `tp * dp` chips of a replica; `pp` stages hold a share of the layers each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_GROUP = 8
"""Chips of a tensor-parallel group in practice: published results with wider ones are many groups, counted together."""


class ParallelError(ValueError):
    """A topology that no system has; trying again would change nothing."""

    retry = False


@dataclass(frozen=True, slots=True)
class Parallel:
    tp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int = 1
    replicas: int = 1

    def __post_init__(self) -> None:
        for name in ("tp", "dp", "pp", "ep", "replicas"):
            if getattr(self, name) < 1:
                raise ParallelError(f"{name}: {getattr(self, name)} is not allowed; allowed: at least 1")
        if self.group % self.ep:
            raise ParallelError(f"ep: {self.ep} is not allowed; allowed: a divisor of tp x dp, {self.group}")

    @property
    def group(self) -> int:
        """Chips that one step of one pipeline stage runs on."""
        return self.tp * self.dp

    @property
    def chips(self) -> int:
        return self.group * self.pp * self.replicas


ONE_CHIP = Parallel()


@dataclass(frozen=True, slots=True)
class Layout:
    """A published system: the pool that decodes, and the one that prefills where that is another."""

    decode: Parallel
    prefill: Parallel | None = None

    @property
    def chips(self) -> int:
        return self.decode.chips + (self.prefill.chips if self.prefill else 0)


def _number(text: str, name: str) -> int | None:
    found = re.search(rf"(?<![A-Za-z]){name}\s*(\d+)", text)
    return int(found.group(1)) if found else None


def read_parallelism(text: str | None, num_chips: int, least_chips: int) -> Layout:
    """The layout that a published `parallelism` names, such as "TP2", "agg TP8 PP1 attnDP1 moeTP1 EP8", "TP1,PP4",
    "disagg P1x4gpu D2x8gpu". Without one: the fewest chips that hold the model (`least_chips`) in each replica."""
    text = text or ""
    pools = re.match(r"disagg P(\d+)x(\d+)gpu D(\d+)x(\d+)gpu", text)
    if pools:
        count_p, chips_p, count_d, chips_d = map(int, pools.groups())
        return Layout(_instances(count_d, chips_d, least_chips), _instances(count_p, chips_p, least_chips))
    if "layer split" in text:
        return Layout(Parallel(pp=num_chips))
    if "NeuronCores" in text:
        return Layout(Parallel(tp=num_chips))
    if wide := _number(text, "DEP"):
        return Layout(Parallel(dp=wide, ep=wide, replicas=max(num_chips // wide, 1)))
    return Layout(_aggregated(text, num_chips, least_chips))


def _aggregated(text: str, num_chips: int, least_chips: int) -> Parallel:
    pp, dp = _number(text, "PP") or 1, _number(text, "attnDP") or _number(text, "DP") or 1
    tp, ep = _number(text, "TP") or 1, _number(text, "EP") or 1
    experts_on = (_number(text, "moeTP") or 1) * ep
    num_chips = max(num_chips, least_chips)
    if not text:
        tp = min(least_chips, num_chips)
    group = min(max(tp * dp, experts_on), num_chips)
    if dp == 1:
        tp = group if group <= max(MAX_GROUP, least_chips) else max(MAX_GROUP, least_chips)
    else:
        tp = max(group // dp, 1)
    group = tp * dp
    return Parallel(tp, dp, pp, ep if ep > 1 and group % ep == 0 else 1, max(num_chips // (group * pp), 1))


def _instances(count: int, chips: int, least_chips: int) -> Parallel:
    chips = max(chips, least_chips)
    if chips > MAX_GROUP:
        return Parallel(dp=chips, ep=chips, replicas=count)
    return Parallel(tp=chips, replicas=count)
