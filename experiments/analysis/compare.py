"""Trials side by side: medians with intervals over valid runs, and differences to a baseline. Pure.

Invalid runs are listed with their reasons but enter no figure. Measured and modelled trials are never paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from experiments.analysis.intervals import (
    Interval,
    mean_interval,
    noise_floor,
    paired_interval,
    reciprocal_interval,
    welch_interval,
)
from experiments.analysis.model_error import Errors, model_difference, model_interval
from experiments.analysis.noise import NodeNoise
from runners.cost_figures import ENERGY_UNITS

# For each metric: its unit, and whether more is better (None: neither).
COMPARED: dict[str, tuple[str, bool | None]] = {
    "output_throughput": ("tok/s", True),
    "total_throughput": ("tok/s", True),
    "request_throughput": ("req/s", True),
    "goodput": ("req/s", True),
    "goodput_share": ("share", True),
    "token_goodput": ("tok/s", True),
    "ttft": ("s", False),
    "ttft_p95": ("s", False),
    "effective_ttft": ("s", False),
    "effective_ttft_p95": ("s", False),
    "tpot": ("s", False),
    "tpot_p95": ("s", False),
    "itl": ("s", False),
    "itl_p95": ("s", False),
    "icl": ("s", False),
    "e2el": ("s", False),
    "e2el_p95": ("s", False),
    "interactivity": ("tok/s", True),
    "interactivity_p95": ("tok/s", True),
    "time_to_answer": ("s", False),
    "time_to_answer_p95": ("s", False),
    "answer_throughput": ("tok/s", True),
    "thinking_share": ("share", None),
    "session_time": ("s", False),
    "session_time_p95": ("s", False),
    "sessions_ok": ("sessions", True),
    "session_goodput_share": ("share", True),
    "queue_wait": ("s", False),
    "prefill_time": ("s", False),
    "client_wait": ("s", False),
    "network_time": ("s", False),
    "first_sample_time": ("s", False),
    "concurrency": ("req", None),
    "queue_depth": ("req", None),
    "running": ("req", None),
    "kv_use": ("share", None),
    "kv_fragmentation": ("share", False),
    "step_tokens": ("tok", None),
    "cache_hit_rate": ("share", None),
    "preemptions": ("count", False),
    "idle_share": ("share", False),
    "mfu": ("share", True),
    "mbu": ("share", True),
    "accuracy": ("share", True),
    "output_throughput_per_chip": ("tok/s/chip", True),
    "output_throughput_per_kw": ("tok/s/kW", True),
    "output_tokens_per_usd": ("tok/$", True),
    "cost_per_million_output_tokens": ("$", False),
    "cost_per_useful_answer": ("$", False),
    "interconnect_tax": ("share", False),
    "mean_power": ("W", False),
    "energy_per_output_token": ("J", False),
    "energy_per_million_output_tokens": ("J", False),
    "energy_per_request": ("J", False),
    "energy_per_useful_answer": ("J", False),
}


BOUNDED_WHEN_ASSUMED = {
    "energy_per_output_token": "cost_per_million_output_tokens",
    "energy_per_million_output_tokens": "cost_per_million_output_tokens",
    "energy_per_request": "cost_per_million_output_tokens",
    "output_throughput_per_kw": "output_throughput",
}
PER_OUTPUT = ("cost_per_million_output_tokens", "cost_per_useful_answer")
"""A price over output: their intervals are those of the output, turned over."""


@dataclass(frozen=True)
class RunResult:
    """One ended run: its figures by metric name, its validity, and where it ran; a modelled one's `model_errors` are
    those of its cost model's calibration, `speculative` the factors between which the truth may lie where its chip's
    record holds stand-ins. `noise` is what its node's history says of each metric's. `energy_source` says how its power
    is known, `assumed` names the figures that rest on an assumed price or power, and `few` those percentiles that have
    too few samples, with how many."""

    id: int
    repeat: int
    node: str
    modelled: bool
    valid: bool
    reasons: tuple[str, ...]
    output_tokens: int | None
    values: Mapping[str, float | None]
    model_errors: Errors = field(default_factory=dict)
    speculative: tuple[float, float] | None = None
    noise: Mapping[str, NodeNoise] = field(default_factory=dict)
    imported: bool = False
    energy_source: str | None = None
    assumed: frozenset[str] = frozenset()
    few: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialResult:
    id: int
    experiment_id: int
    settings: Mapping[str, Any]
    runs: tuple[RunResult, ...] = field(default=())
    label: str = ""

    @property
    def modelled(self) -> bool:
        return any(run.modelled for run in self.runs)

    @property
    def imported(self) -> bool:
        return any(run.imported for run in self.runs)

    @property
    def model_errors(self) -> Errors:
        """Those of its runs; none where they differ, as runs of two calibrations have no error together."""
        found = [run.model_errors for run in self.valid_runs()]
        return found[0] if found and all(errors == found[0] for errors in found) else {}

    @property
    def energy_sources(self) -> set[str]:
        return {run.energy_source for run in self.valid_runs() if run.energy_source is not None}

    def assumes(self, metric: str) -> bool:
        return any(metric in run.assumed for run in self.valid_runs())

    def valid_runs(self) -> list[RunResult]:
        return [run for run in self.runs if run.valid]

    def values(self, metric: str) -> list[float]:
        return [v for run in self.valid_runs() if (v := run.values.get(metric)) is not None]


def flatten_metrics(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """A run's stored summary as {name: value}, each latency's p95 beside its median as `<name>_p95`."""
    values: dict[str, float | None] = {}
    for name, metric in summary.get("metrics", {}).items():
        values[name] = metric["value"]
        if "p95" in metric["percentiles"]:
            values[f"{name}_p95"] = metric["percentiles"]["p95"]["value"]
    return values


def few_samples(summary: Mapping[str, Any]) -> dict[str, int]:
    """Of the percentiles that `flatten_metrics` gives, those with too few samples, and how many they have."""
    return {
        f"{name}_p95": int(metric["n"])
        for name, metric in summary.get("metrics", {}).items()
        if "p95" in metric["percentiles"] and not metric["percentiles"]["p95"]["enough"]
    }


def compare_trials(
    trials: Sequence[TrialResult], baseline: Mapping[str, Any] | None = None, metrics: Sequence[str] = tuple(COMPARED)
) -> dict[str, Any]:
    """The comparison as the API gives it: every trial's figures, and each trial against the baseline.

    The baseline is the first trial whose settings contain `baseline` (all of them: the first trial). Only `metrics`, of
    COMPARED, are looked at.
    """
    base = find_baseline(trials, baseline or {})
    floors = noise_floors(trials, metrics)
    differences = []
    if base is not None:
        for trial in trials:
            if trial is not base:
                differences.extend(_differences(base, trial, metrics, floors))
    return {
        "trials": [_trial_json(trial, trial is base, metrics) for trial in trials],
        "differences": differences,
        "metrics": {name: {"unit": COMPARED[name][0], "more_is_better": COMPARED[name][1]} for name in metrics},
    }


def find_baseline(trials: Sequence[TrialResult], wanted: Mapping[str, Any]) -> TrialResult | None:
    """The first trial whose settings contain `wanted`."""
    fitting = (t for t in trials if all(t.settings.get(path) == value for path, value in wanted.items()))
    return next(fitting, None)


def _trial_json(trial: TrialResult, is_baseline: bool, metrics: Sequence[str]) -> dict[str, Any]:
    figures = {name: _metric_json(trial, name) for name in metrics if trial.values(name)}
    return {
        "id": trial.id,
        "experiment_id": trial.experiment_id,
        "settings": dict(trial.settings),
        "label": trial.label,
        "baseline": is_baseline,
        "modelled": trial.modelled,
        "imported": trial.imported,
        "nodes": sorted({run.node for run in trial.runs if run.node}),
        "runs": [
            {
                "id": run.id,
                "repeat": run.repeat,
                "valid": run.valid,
                "reasons": list(run.reasons),
                "output_tokens": run.output_tokens,
            }
            for run in trial.runs
        ],
        "metrics": figures,
    }


def _metric_json(trial: TrialResult, name: str) -> dict[str, Any]:
    values = trial.values(name)
    if trial.modelled:
        interval = model_interval(_bounded_as(trial, name), float(median(values)), len(values), trial.model_errors)
    else:
        interval = reciprocal_interval(values) if name in PER_OUTPUT else mean_interval(values)
    return {
        "median": float(median(values)),
        "low": interval.low,
        "high": interval.high,
        "n": len(values),
        "unit": COMPARED[name][0],
        "method": interval.method,
        "few": min((run.few[name] for run in trial.valid_runs() if name in run.few), default=None),
        "assumed": trial.assumes(name),
        "source": (" and ".join(sorted(trial.energy_sources)) or None) if name in ENERGY_UNITS else None,
    }


def _bounded_as(trial: TrialResult, metric: str) -> str:
    """The metric whose error a modelled one has: energy by assumed watts errs as the throughput does, not as power."""
    return BOUNDED_WHEN_ASSUMED.get(metric, metric) if trial.assumes(metric) else metric


def noise_floors(
    trials: Sequence[TrialResult], metrics: Sequence[str] = tuple(COMPARED)
) -> dict[tuple[str, str], float]:
    """A/A spread by (node, metric), from the repeats of every setting that ran there."""
    nodes = {run.node for trial in trials for run in trial.valid_runs()}
    floors: dict[tuple[str, str], float] = {}
    for node in nodes:
        for metric in metrics:
            groups = [
                [v for run in trial.valid_runs() if run.node == node and (v := run.values.get(metric)) is not None]
                for trial in trials
            ]
            floor = noise_floor(groups)
            if floor is not None:
                floors[node, metric] = floor
    return floors


def _differences(
    base: TrialResult, trial: TrialResult, metrics: Sequence[str], floors: Mapping[tuple[str, str], float]
) -> list[dict[str, Any]]:
    rows = (difference_row(base, trial, metric, floors) for metric in metrics)
    return [row for row in rows if row is not None]


def difference_row(
    base: TrialResult, trial: TrialResult, metric: str, floors: Mapping[tuple[str, str], float]
) -> dict[str, Any] | None:
    """What `trial` differs by from `base` in one metric, as the API gives it; None where either lacks it. `floors` are
    those of `noise_floors`."""
    interval = interval_between(base, trial, metric)
    if interval is None:
        return None
    reference = fmean(base.values(metric))
    floor, source = _floor(base, trial, metric, floors)
    relative = interval.estimate / reference if reference else None
    above = floor is not None and relative is not None and abs(relative) > floor
    mixes_energy = _mixed_energy(base, trial) if metric in ENERGY_UNITS else None
    alike = base.imported == trial.imported and mixes_energy is None
    return {
        "metric": metric,
        "trial": trial.id,
        "settings": dict(trial.settings),
        "baseline": dict(base.settings),
        "difference": interval.estimate,
        "relative": relative,
        "low": interval.low,
        "high": interval.high,
        "n": interval.n,
        "method": interval.method,
        "noise_floor": floor,
        "noise_source": source,
        "mixes_modelled": base.modelled != trial.modelled,
        "mixes_imported": base.imported != trial.imported,
        "mixes_energy": mixes_energy,
        "assumed": base.assumes(metric) or trial.assumes(metric),
        "is_difference": interval.excludes_zero and above and alike,
    }


def _mixed_energy(base: TrialResult, trial: TrialResult) -> str | None:
    """The sources that the two trials' energy is from, where they are not one."""
    sources = base.energy_sources | trial.energy_sources
    return " and ".join(sorted(sources)) if len(sources) > 1 else None


def verdict_of(row: Mapping[str, Any]) -> str:
    """What may be said of a difference, in words."""
    better = COMPARED[row["metric"]][1]
    if row["mixes_modelled"]:
        return "not comparable: measured and modelled"
    if row["mixes_imported"]:
        return "not comparable: imported and not"
    if row["mixes_energy"]:
        return f"not comparable: energy {row['mixes_energy']}"
    if row["low"] is None:
        return f"no interval ({row['method']})"
    if not row["is_difference"]:
        return "no difference shown"
    if better is None:
        return "differs"
    return "better" if (row["difference"] > 0) == better else "worse"


def _floor(
    base: TrialResult, trial: TrialResult, metric: str, floors: Mapping[tuple[str, str], float]
) -> tuple[float | None, str | None]:
    """The noise floor, the widest of the nodes', and where it is from: their history where no repeats give one."""
    nodes = {run.node for one in (base, trial) for run in one.valid_runs()}
    used = [floors[node, metric] for node in nodes if (node, metric) in floors]
    return (max(used), "the repeats compared") if used else floor_by_history(base, trial, metric)


def floor_by_history(base: TrialResult, trial: TrialResult, metric: str) -> tuple[float | None, str | None]:
    """The widest of the nodes' own floors for means of as few runs as these, and where it is from."""
    repeats = min(len(base.values(metric)), len(trial.values(metric)))
    across = base.experiment_id != trial.experiment_id
    known = [run.noise[metric] for one in (base, trial) for run in one.valid_runs() if metric in run.noise]
    found = [(floor, noise.told()) for noise in known if (floor := noise.floor(repeats, across=across)) is not None]
    return max(found, default=(None, None))


def interval_between(base: TrialResult, trial: TrialResult, metric: str) -> Interval | None:
    """Paired over the repeats that both trials have valid on the same node; Welch's where there is none."""
    before, after = base.values(metric), trial.values(metric)
    if not before or not after:
        return None
    if base.modelled or trial.modelled:
        one, two = (fmean(before), base.model_errors), (fmean(after), trial.model_errors)
        bounded = _bounded_as(trial if trial.modelled else base, metric)
        return model_difference(bounded, one, two, min(len(before), len(after)))
    left, right = paired_values(base, trial, metric)
    return paired_interval(left, right) if left else welch_interval(before, after)


def paired_values(base: TrialResult, trial: TrialResult, metric: str) -> tuple[list[float], list[float]]:
    """Of the repeats that both trials have valid on the same node, in one experiment; empty where there is none."""
    if base.experiment_id != trial.experiment_id:
        return [], []
    left, right = (
        {(run.repeat, run.node): v for run in t.valid_runs() if (v := run.values.get(metric)) is not None}
        for t in (base, trial)
    )
    shared = sorted(left.keys() & right.keys())
    return [left[pair] for pair in shared], [right[pair] for pair in shared]
