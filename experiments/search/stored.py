"""From stored trials and runs to what planners are given. Reads; nothing else is kept of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.analysis.compare import TrialResult
from experiments.comparison import results_of
from experiments.models import RUN_ENDED, Experiment, Run, RunState
from experiments.search.planner import Planned, plan_searches, plans_ahead
from experiments.search.seen import Allowed, Asked, RunSeen, Settings, TrialSeen
from experiments.selectors import TrialWithRuns, trials_with_runs
from runners.designs import plan_trials
from runners.spec import ExperimentSpec


def spec_of(experiment: Experiment) -> ExperimentSpec:
    return ExperimentSpec.model_validate(experiment.spec)


def is_planning(spec: Mapping[str, Any]) -> bool:
    """Whether a stored spec is of an experiment that plans its own next runs."""
    return bool(spec.get("search")) or isinstance(spec.get("repeats"), Mapping)


def searched_paths(spec: Mapping[str, Any]) -> list[str]:
    """What a stored spec's search sets, by path."""
    search = spec.get("search") or {}
    if "maximize" in search:
        return [search["maximize"]]
    return list((search.get("pareto") or search).get("space") or {})


def searches_of(
    experiment: Experiment, entries: Sequence[TrialWithRuns] | None = None, results: Sequence[TrialResult] | None = None
) -> Planned | None:
    """The courses of an experiment's searches, to be shown; None where it plans no runs itself."""
    if not is_planning(experiment.spec):
        return None
    entries = trials_with_runs(experiment.pk) if entries is None else entries
    results = results_of(entries) if results is None else results
    return plan_stored(spec_of(experiment), see(entries, results))


def plan_stored(spec: ExperimentSpec, trials: Sequence[TrialSeen], allowed: Allowed | None = None) -> Planned:
    """Of a spec that plans ahead."""
    cells = cells_of(spec, trials)
    asked = Asked(cells, trials, spec.seed) if allowed is None else Asked(cells, trials, spec.seed, allowed)
    return plan_searches(spec, asked)


def cells_of(spec: ExperimentSpec, trials: Sequence[TrialSeen]) -> list[Settings]:
    """What is searched, each by itself: the combinations of the matrix; where only repeats are added, the trials."""
    if not plans_ahead(spec):
        return []
    return [trial.axes for trial in plan_trials(spec)] if spec.search is not None else [one.settings for one in trials]


def see(entries: Sequence[TrialWithRuns], results: Sequence[TrialResult]) -> list[TrialSeen]:
    """The trials with their runs, ended or not. `results` are those of the entries, in their order."""
    return [_trial(entry, result) for entry, result in zip(entries, results, strict=True)]


def _trial(entry: TrialWithRuns, result: TrialResult) -> TrialSeen:
    by_id = {one.id: one for one in result.runs}
    runs = []
    for one in entry.runs:
        metrics = (one.run.summary or {}).get("metrics", {})
        runs.append(
            RunSeen(
                one.run.repeat,
                by_id.get(one.run.pk) if is_settled(one.run) else None,
                one.run.state == RunState.SUCCEEDED,
                _slo_met(metrics),
                _success(metrics),
            )
        )
    return TrialSeen(entry.trial.pk, entry.trial.index, entry.trial.settings, tuple(runs))


def is_settled(run: Run) -> bool:
    """Ended, and summed up where there is an attempt to sum up."""
    return run.state in RUN_ENDED and (run.valid is not None or run.final_attempt_id is None)


def _slo_met(metrics: Mapping[str, Any]) -> bool | None:
    found = _value(metrics, "slo_met")
    return None if found is None else found > 0


def _success(metrics: Mapping[str, Any]) -> float | None:
    good, failed = _value(metrics, "requests_ok"), _value(metrics, "requests_failed")
    return good / (good + failed) if good is not None and failed is not None and good + failed else None


def _value(metrics: Mapping[str, Any], name: str) -> float | None:
    found = metrics.get(name, {}).get("value")
    return None if found is None else float(found)
