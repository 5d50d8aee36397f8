"""From stored runs to the comparison that the API and the pages show. The statistics are in experiments.analysis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.analysis.assumed import SOURCE as ASSUMED
from experiments.analysis.assumed import Assumed, assume
from experiments.analysis.compare import COMPARED, RunResult, TrialResult, compare_trials, few_samples, flatten_metrics
from experiments.analysis.model_error import Errors
from experiments.models import RUN_ENDED, Attempt, Experiment, Run, Trial
from experiments.node_noise import Noise, noise_of
from experiments.selectors import RunOnNode, TrialWithRuns, readable_experiments, runs_on_nodes, trials_with_runs
from labsite.accounts.models import User
from runners.cost_figures import ENERGY_UNITS

MAX_TRIALS = 200
NOTHING_ASSUMED = Assumed()


def compare_experiment(
    experiment: Experiment, metrics: Sequence[str] = tuple(COMPARED), assumed: Assumed = NOTHING_ASSUMED
) -> dict[str, Any]:
    """All trials of one experiment against its baseline (without one: its first trial)."""
    baseline = experiment.spec.get("baseline") or {}
    return compare_trials(assume(results_of(trials_with_runs(experiment.id)), assumed), baseline, metrics)


def readable_trials(user: User, trial_ids: Sequence[int]) -> list[TrialWithRuns]:
    """The trials of any experiments, in the order asked for; those that are not the user's to read are left out."""
    wanted = list(dict.fromkeys(trial_ids))[:MAX_TRIALS]
    found = Trial.objects.filter(id__in=wanted, experiment__in=readable_experiments(user)).select_related("experiment")
    entries = {trial.id: TrialWithRuns(trial) for trial in found}
    runs = Run.objects.filter(trial_id__in=entries).defer("spec", "distributions").order_by("repeat")
    for entry in runs_on_nodes(runs):
        entries[entry.run.trial_id].runs.append(entry)
    return [entries[trial_id] for trial_id in wanted if trial_id in entries]


def distributions_of(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The stored latency distributions of those runs that have them (see runners.distributions)."""
    stored = Run.objects.filter(id__in=run_ids, distributions__isnull=False)
    return {run_id: found for run_id, found in stored.values_list("id", "distributions") if found}


def results_of(entries: Iterable[TrialWithRuns]) -> list[TrialResult]:
    found = list(entries)
    told = _told(one for entry in found for one in entry.runs)
    attempts = [one.attempt for entry in found for one in entry.runs if one.attempt and not one.modelled]
    noise = noise_of({attempt.node_id for attempt in attempts if attempt.node_id is not None})
    return [
        TrialResult(
            entry.trial.id,
            entry.trial.experiment_id,
            entry.trial.settings,
            tuple(_run_result(one, told, noise) for one in entry.runs if one.run.state in RUN_ENDED),
            entry.trial.label,
        )
        for entry in found
    ]


@dataclass(frozen=True)
class _Told:
    """What a modelled run reported that bounds its figures."""

    errors: Errors
    speculative: tuple[float, float] | None


_NOTHING_TOLD = _Told({}, None)


def _told(entries: Iterable[RunOnNode]) -> dict[int, _Told]:
    """By attempt: the errors of the cost model's calibration, and the band of its chip's stand-ins."""
    attempts = [one.attempt.id for one in entries if one.attempt is not None and one.modelled]
    if not attempts:
        return {}
    stored = Attempt.objects.filter(id__in=attempts)
    rows = stored.values_list("id", "report__facts__calibration_errors", "report__facts__speculative")
    return {attempt: _Told(errors or {}, _factors(band)) for attempt, errors, band in rows}


def _factors(band: Any) -> tuple[float, float] | None:
    """The band's two factors; None of a report that states none that could be."""
    ends = [band.get(key) for key in ("low_x", "high_x")] if isinstance(band, Mapping) else []
    low, high = (float(end) if isinstance(end, int | float) else 0.0 for end in ends or (None, None))
    return (low, high) if 0 < low <= high else None


def _run_result(entry: RunOnNode, told: Mapping[int, _Told], noise: Mapping[int, Noise]) -> RunResult:
    run = entry.run
    values = flatten_metrics(run.summary or {})
    tokens = values.get("output_tokens")
    of_attempt = told.get(entry.attempt.id, _NOTHING_TOLD) if entry.attempt is not None else _NOTHING_TOLD
    return RunResult(
        id=run.id,
        repeat=run.repeat,
        node=entry.node or "",
        modelled=bool(entry.modelled),
        valid=bool(run.valid),
        reasons=tuple(run.reasons) or (() if run.valid else (run.state,)),
        output_tokens=None if tokens is None else int(tokens),
        values=values,
        model_errors=of_attempt.errors,
        speculative=of_attempt.speculative,
        noise=noise.get(entry.attempt.node_id, {}) if entry.attempt and entry.attempt.node_id else {},
        imported=entry.imported,
        few=few_samples(run.summary or {}),
        energy_source=(source := (run.summary or {}).get("energy_source")),
        assumed=frozenset(ENERGY_UNITS) if source == ASSUMED else frozenset(),
    )
