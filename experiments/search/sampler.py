"""The next point of a space to try, by Optuna's TPE. Pure: the study is built anew from what was tried, each time.

So nothing of a search is kept outside of its stored trials, and a crash loses nothing. The same trials and the same
seed give the same point.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from experiments.search.seen import Allowed, Settings, key_of
from runners.spec import Range, Setting

optuna.logging.set_verbosity(optuna.logging.WARNING)

Space = Mapping[str, Range | tuple[Setting, ...]]
ASKED_AT_MOST = 60
"""How often a point is asked for before the space counts as used up: points tried, or impossible, are no answer."""
LARGEST_GRID = 5_000
CONSTRAINTS = "constraints"
"""Where Optuna's samplers find a trial's constraints: above 0 is a breach."""


@dataclass(frozen=True)
class Tried:
    """A point with its figures, one for each goal; None where no run gave them. `holds` is false of one that may not
    win."""

    point: Settings
    values: tuple[float, ...] | None
    holds: bool


def size_of(space: Space) -> float:
    return math.prod(one.size if isinstance(one, Range) else len(one) for one in space.values())


def grid_of(space: Space) -> Iterator[dict[str, Setting]]:
    """Every point of a finite space."""
    axes = [range(int(one.low), int(one.high) + 1) if isinstance(one, Range) else one for one in space.values()]
    for values in itertools.product(*axes):
        yield dict(zip(space, values, strict=True))


def suggest(
    space: Space, tried: Sequence[Tried], more_is_better: Sequence[bool], seed: str, allowed: Allowed
) -> dict[str, Setting] | None:
    """A point that was not tried yet and is allowed; None where none is found."""
    study = _study(space, tried, more_is_better, seed)
    known = {key_of(one.point) for one in tried}
    distributions = {path: _distribution(one) for path, one in space.items()}
    for _ in range(ASKED_AT_MOST):
        trial = study.ask(distributions)
        point = {path: _tidy(trial.params[path], space[path]) for path in space}
        if key_of(point) not in known and allowed(point):
            return point
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    if size_of(space) <= LARGEST_GRID:
        return next((point for point in grid_of(space) if key_of(point) not in known and allowed(point)), None)
    return None


def _study(space: Space, tried: Sequence[Tried], more_is_better: Sequence[bool], seed: str) -> optuna.study.Study:
    any_told = any(one.values is not None for one in tried)
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=0 if any_told else 1, constraints_func=_told)
    directions = ["maximize" if more else "minimize" for more in more_is_better]
    study = optuna.create_study(sampler=sampler, directions=directions)
    for one in tried:
        if one.values is not None:
            study.add_trial(_frozen(space, one))
    return study


def _told(trial: optuna.trial.FrozenTrial) -> Sequence[float]:
    """Every trial of the study carries its constraints already; this makes the sampler look at them."""
    return list(trial.system_attrs.get(CONSTRAINTS, [0.0]))


def _frozen(space: Space, one: Tried) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        params={path: one.point[path] for path in space},
        distributions={path: _distribution(space[path]) for path in space},
        values=list(one.values or ()),
        system_attrs={CONSTRAINTS: [0.0 if one.holds else 1.0]},
    )


def _distribution(one: Range | tuple[Setting, ...]) -> BaseDistribution:
    if not isinstance(one, Range):
        return CategoricalDistribution(list(one))
    if one.whole:
        return IntDistribution(int(one.low), int(one.high), log=one.log)
    return FloatDistribution(float(one.low), float(one.high), log=one.log)


def _tidy(value: Setting, of: Range | tuple[Setting, ...]) -> Setting:
    """Four digits of a broken number: more would say nothing, and be hard to read."""
    if isinstance(of, Range) and isinstance(value, float):
        return min(max(float(f"{value:.4g}"), float(of.low)), float(of.high))
    return value
