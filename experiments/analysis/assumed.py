"""Prices and power that a reader assumes for a view: cost and energy figures of runs computed anew by them. Pure.

Only what rests on the price or the power changes, and only of runs on nodes that something is assumed of. Such figures
are named in `RunResult.assumed`, so that whatever shows them can say so; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from experiments.analysis.compare import RunResult, TrialResult
from runners.cost_figures import ENERGY_UNITS, PRICE_UNITS, Output, energy_figures, price_figures

SOURCE = "assumed"


@dataclass(frozen=True)
class Assumed:
    """By node: dollars an hour of the whole node, and watts of all its chips."""

    usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    watts: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.usd_per_hour or self.watts)


def assume(trials: Sequence[TrialResult], assumed: Assumed) -> list[TrialResult]:
    """The trials as they would be by the prices and the power assumed."""
    return [replace(trial, runs=tuple(_assume(run, assumed) for run in trial.runs)) for trial in trials]


def _assume(run: RunResult, assumed: Assumed) -> RunResult:
    usd_per_hour, watts = assumed.usd_per_hour.get(run.node), assumed.watts.get(run.node)
    output = _output(run.values)
    values: dict[str, float | None] = dict(run.values)
    names = set(run.assumed)
    if usd_per_hour is not None:
        values |= price_figures(output, usd_per_hour)
        names |= PRICE_UNITS.keys()
    if watts is not None:
        values |= energy_figures(output, None if output.window_s is None else watts * output.window_s)
        names |= ENERGY_UNITS.keys()
    source = SOURCE if watts is not None else run.energy_source
    return replace(run, values=values, assumed=frozenset(names), energy_source=source)


def _output(values: Mapping[str, float | None]) -> Output:
    return Output(
        values.get("window"),
        values.get("output_tokens") or 0.0,
        values.get("requests_ok") or 0.0,
        values.get("useful_answers"),
    )
