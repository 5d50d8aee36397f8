"""Whether a trial is worse than what it is held against, or better, or the same, or whether that can't be told. Pure.

Worse or better is what METRICS.md calls a difference: the interval excludes 0 and the change is above the noise floor.
Without one the setting is called unchanged only if a change of the size that one wants to hear of would have been seen
with a power of 80 %; else the verdict is that there is none. Each verdict on equal settings errs in at most 5 %, so
that of many asked at once some will.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy import special

from experiments.analysis.compare import COMPARED, TrialResult, interval_between, paired_values
from experiments.analysis.power import (
    ENOUGH,
    effect_size_paired,
    effect_size_unpaired,
    pooled_spread,
    power_paired,
    power_unpaired,
    repeats_needed,
)


class Outcome(StrEnum):
    REGRESSED = "regressed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    INCONCLUSIVE = "inconclusive"


JUDGED = tuple(name for name, (_, more_is_better) in COMPARED.items() if more_is_better is not None)
"""The metrics that can be better or worse."""


@dataclass(frozen=True)
class Verdict:
    """`difference`, `low` and `high` in the metric's unit, `relative` and `noise_floor` as shares of the baseline's
    mean. `power` is that of seeing a relative change of `effect`, `repeats_needed` how many of each would see it with
    80 %, by the spread of these runs. What can't be known is None."""

    metric: str
    outcome: Outcome
    why: str
    n_before: int
    n_after: int
    effect: float
    method: str | None = None
    difference: float | None = None
    relative: float | None = None
    low: float | None = None
    high: float | None = None
    noise_floor: float | None = None
    effect_size: float | None = None
    power: float | None = None
    repeats_needed: int | None = None


def judge(
    metric: str, baseline: TrialResult, trial: TrialResult, noise_floor: float | None, *, effect: float
) -> Verdict:
    """`effect` is the relative change that one wants to hear of, as 0.05. Raises ValueError for a metric of which
    neither more nor less is better."""
    if metric not in JUDGED:
        raise ValueError(f"{metric} has no better direction; allowed: {', '.join(JUDGED)}")
    before, after = baseline.values(metric), trial.values(metric)
    unknown = Verdict(metric, Outcome.INCONCLUSIVE, "", len(before), len(after), effect)
    interval = interval_between(baseline, trial, metric)
    reference = float(np.mean(before)) if before else 0.0
    if interval is None or reference == 0:
        return replace(unknown, why=f"{len(before)} valid values before and {len(after)} now, or a baseline of 0")
    found = replace(
        unknown,
        method=interval.method,
        difference=interval.estimate,
        relative=interval.estimate / abs(reference),
        low=interval.low,
        high=interval.high,
        noise_floor=noise_floor,
    )
    if baseline.modelled or trial.modelled:
        return replace(found, why="modelled figures have no run-to-run noise that could tell a change of this size")
    if interval.low is None or noise_floor is None:
        return replace(
            found, why=f"{len(before)} valid runs before and {len(after)} now; an interval needs two of each"
        )
    return _decide(_measure_power(found, baseline, trial, effect * abs(reference)))


def _measure_power(found: Verdict, baseline: TrialResult, trial: TrialResult, wanted: float) -> Verdict:
    """`wanted` is the effect in the metric's unit."""
    before, after = baseline.values(found.metric), trial.values(found.metric)
    left, right = paired_values(baseline, trial, found.metric)
    if left:
        spread = float(np.std(np.subtract(right, left), ddof=1))
        size, error, freedom = effect_size_paired(left, right), spread / math.sqrt(len(left)), len(left) - 1
    else:
        spread = pooled_spread(before, after) or 0.0
        size, freedom = effect_size_unpaired(before, after), len(before) + len(after) - 2
        error = spread * math.sqrt(1 / len(before) + 1 / len(after))
    if not spread:
        power = 1.0 if found.noise_floor is not None and found.effect > found.noise_floor else 0.0
        return replace(found, power=power, repeats_needed=2)
    standard = wanted / spread
    power = power_paired(standard, len(left)) if left else power_unpaired(standard, len(before), len(after))
    # the change must pass the noise floor too, which is the rarer of the two where the floor is from elsewhere
    over_floor = wanted * (1 - (found.noise_floor or 0.0) / found.effect)
    passes = float(special.stdtr(freedom, over_floor / error))
    needed = repeats_needed(standard, paired=bool(left))
    return replace(found, effect_size=size, power=min(power, passes), repeats_needed=needed)


def _decide(found: Verdict) -> Verdict:
    assert found.relative is not None and found.low is not None and found.high is not None
    assert found.noise_floor is not None and found.power is not None and found.difference is not None
    change = f"{found.relative:+.1%} of the baseline, noise floor {found.noise_floor:.1%}"
    if (found.low > 0 or found.high < 0) and abs(found.relative) > found.noise_floor:
        better = (found.difference > 0) == COMPARED[found.metric][1]
        why = f"{change}; the 95 % interval excludes 0"
        return replace(found, outcome=Outcome.IMPROVED if better else Outcome.REGRESSED, why=why)
    chance = f"a change of {found.effect:.1%} would have been seen with {found.power:.0%}"
    if found.power >= ENOUGH:
        return replace(found, outcome=Outcome.UNCHANGED, why=f"{change}; {chance}")
    needed = found.repeats_needed
    n = min(found.n_before, found.n_after)
    if needed is None:
        remedy = "over 1,000 repeats of each would be needed"
    elif needed > n:
        remedy = f"{needed} repeats of each would do by the spread of these"
    else:
        remedy = "the noise floor of the node is too high for it"
    return replace(found, why=f"{change}; {chance}: {remedy}")
