"""What an experiment is checked against: its own baseline, another experiment, or the last runs of the same settings on
the same node; and the verdicts. The statistics are in experiments.analysis.regression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Min

from experiments.analysis.compare import RunResult, TrialResult, find_baseline, floor_by_history, noise_floors
from experiments.analysis.regression import Outcome, Verdict, judge
from experiments.comparison import results_of
from experiments.errors import WrongState
from experiments.models import RUN_ENDED, Experiment, Run
from experiments.node_noise import measure_history
from experiments.selectors import TrialWithRuns, readable_experiments, runs_on_nodes, trials_with_runs
from experiments.settings_key import settings_key
from hardware.models import Node
from labsite.accounts.models import User

# How many earlier runs of a node are looked through for those of the same settings.
LOOKED_THROUGH = 500
MOST_LAST = 100


@dataclass(frozen=True)
class Finding:
    """One trial's verdict on one metric, with the runs on both sides."""

    trial: int
    settings: Mapping[str, Any]
    nodes: tuple[str, ...]
    runs: tuple[int, ...]
    baseline_runs: tuple[int, ...]
    verdict: Verdict


@dataclass(frozen=True)
class Check:
    """`outcome` is the worst of the findings: regressed before inconclusive before the others; an experiment that only
    got better is improved."""

    experiment: int
    baseline: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        found = {finding.verdict.outcome for finding in self.findings}
        order = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.IMPROVED, Outcome.UNCHANGED)
        return next((outcome for outcome in order if outcome in found), Outcome.INCONCLUSIVE)


def check_itself(experiment: Experiment, metrics: Sequence[str], effect: float) -> Check:
    """Every trial against the experiment's own baseline (without one: its first trial)."""
    trials = _ended(experiment)
    base = find_baseline(trials, experiment.spec.get("baseline") or {})
    others = [trial for trial in trials if trial is not base]
    return _check(experiment, "its own baseline", others, lambda trial: base, metrics, effect)


def check_against(experiment: Experiment, earlier: Experiment, metrics: Sequence[str], effect: float) -> Check:
    """Every trial against the one of the same settings in `earlier`."""
    before = _ended(earlier)
    name = f"experiment {earlier.pk}"
    return _check(
        experiment,
        name,
        _ended(experiment),
        lambda trial: next((one for one in before if one.settings == trial.settings), None),
        metrics,
        effect,
    )


def check_against_last(user: User, experiment: Experiment, number: int, metrics: Sequence[str], effect: float) -> Check:
    """Every trial against the last `number` valid runs of the same frozen settings on the same node, in the same
    project, that ended before this trial's first run began."""
    trials = _ended(experiment)
    name = f"the last {number} runs of the same settings"
    return _check(experiment, name, trials, lambda trial: _last_runs(user, experiment, trial, number), metrics, effect)


def _ended(experiment: Experiment) -> list[TrialResult]:
    """Raises WrongState while runs are under way or wait for their results: a verdict on a part would not stand."""
    runs = Run.objects.filter(experiment=experiment)
    left = runs.exclude(state__in=RUN_ENDED).count() + runs.filter(state="succeeded", valid=None).count()
    if left:
        raise WrongState(f"experiment {experiment.pk} still has runs without results ({left}): check it when they have")
    return results_of(trials_with_runs(experiment.pk))


def _with_earlier_noise(experiment: Experiment, trials: Sequence[TrialResult]) -> list[TrialResult]:
    """The node's noise as it was before this experiment: a change in its runs must not raise the floor that they are
    held to."""
    began = Run.objects.filter(experiment=experiment).aggregate(Min("started_at"))["started_at__min"]
    slugs = {run.node for trial in trials for run in trial.valid_runs() if not run.modelled}
    noise = {node.slug: measure_history(node.pk, before=began) for node in Node.objects.filter(slug__in=slugs)}
    return [
        replace(trial, runs=tuple(replace(run, noise=noise.get(run.node, {})) for run in trial.runs))
        for trial in trials
    ]


def _check(
    experiment: Experiment,
    baseline: str,
    trials: Sequence[TrialResult],
    base_of: Callable[[TrialResult], TrialResult | None],
    metrics: Sequence[str],
    effect: float,
) -> Check:
    pairs = [(trial, base_of(trial)) for trial in _with_earlier_noise(experiment, trials)]
    floors = noise_floors([*trials, *{base.id: base for _, base in pairs if base is not None}.values()])
    findings = [_finding(trial, base, metric, floors, effect) for trial, base in pairs for metric in metrics]
    return Check(experiment.pk, baseline, findings)


def _finding(
    trial: TrialResult,
    base: TrialResult | None,
    metric: str,
    floors: Mapping[tuple[str, str], float],
    effect: float,
) -> Finding:
    """On the nodes that both ran on."""
    nodes = {run.node for run in trial.valid_runs()}
    shared = nodes & {run.node for run in base.valid_runs()} if base else set()
    now = _on(trial, shared)
    before = _on(base, shared) if base else replace(trial, runs=())
    known = [floors[node, metric] for node in shared if (node, metric) in floors]
    # repeats of one day do not show what differs from day to day; the node's history does
    of_history, _ = floor_by_history(replace(before, runs=_silent(before)), now, metric)
    floor = max([*known, *([] if of_history is None else [of_history])], default=None)
    verdict = judge(metric, before, now, floor, effect=effect)
    if not shared:
        verdict = replace(verdict, why=_why_nothing(nodes, base))
    return Finding(trial.id, trial.settings, tuple(sorted(shared)), _ids(now), _ids(before), verdict)


def _why_nothing(nodes: set[str], base: TrialResult | None) -> str:
    if not nodes:
        return "no valid run"
    if base is None or not base.valid_runs():
        return "the baseline has no valid run of these settings"
    others = {run.node for run in base.valid_runs()}
    return f"it ran on {', '.join(sorted(nodes))}, the baseline on {', '.join(sorted(others))}"


def _on(trial: TrialResult, nodes: set[str]) -> TrialResult:
    return replace(trial, runs=tuple(run for run in trial.valid_runs() if run.node in nodes))


def _silent(trial: TrialResult) -> tuple[RunResult, ...]:
    """Its runs without the kept noise, into which this experiment's runs have entered."""
    return tuple(replace(run, noise={}) for run in trial.runs)


def _ids(trial: TrialResult) -> tuple[int, ...]:
    return tuple(run.id for run in trial.runs)


def _last_runs(user: User, experiment: Experiment, trial: TrialResult, number: int) -> TrialResult | None:
    own = Run.objects.filter(trial_id=trial.id, valid=True).select_related("final_attempt", "trial")
    first = own.order_by("started_at").first()
    if first is None or first.final_attempt is None:
        return None
    earlier = Run.objects.filter(
        experiment__in=readable_experiments(user).filter(project=experiment.project),
        valid=True,
        final_attempt__node=first.final_attempt.node_id,
        ended_at__lt=first.started_at,
        spec__model__name=first.spec["model"]["name"],
    ).exclude(experiment=experiment)
    key = settings_key(first.spec)
    newest = earlier.order_by("-ended_at").values_list("pk", "spec")[:LOOKED_THROUGH]
    same: list[int] = []
    for pk, spec in newest.iterator(chunk_size=100):
        if settings_key(spec) == key:
            same.append(pk)
        if len(same) == number:
            break
    found = Run.objects.filter(pk__in=same).defer("spec", "distributions").order_by("ended_at")
    (base,) = results_of([TrialWithRuns(first.trial, runs_on_nodes(found))])
    # they are no trial of this experiment, and pair with none of its repeats
    return replace(base, id=-trial.id, experiment_id=-experiment.pk)
