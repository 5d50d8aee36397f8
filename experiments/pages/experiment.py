"""One experiment: its document, how far it is, and what it found so far."""

from __future__ import annotations

from typing import Any

import yaml
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from experiments.analysis.compare import compare_trials
from experiments.analysis.pareto import best_trial, pareto_front
from experiments.comparison import results_of
from experiments.figures.trials import tradeoff_figure
from experiments.models import RUN_ENDED, Experiment, ExperimentState
from experiments.pages.access import experiment_or_404, person
from experiments.selectors import count_runs, trials_with_runs
from experiments.services.cancelling import cancel_experiment
from labsite.accounts.permissions import AccessDenied, may_control

COLUMNS = ("output_throughput", "interactivity", "ttft", "ttft_p95", "tpot", "itl_p95", "e2el", "goodput", "kv_use")


@login_required
def show_experiment(request: HttpRequest, experiment_id: int) -> HttpResponse:
    experiment = experiment_or_404(request, experiment_id)
    count = count_runs([experiment.pk])[experiment.pk]
    total, ended = sum(count.values()), sum(count[state] for state in RUN_ENDED)
    context = {
        "section": "experiments",
        "experiment": experiment,
        "document": yaml.safe_dump(experiment.document, sort_keys=False, allow_unicode=True),
        "total": total,
        "ended": ended,
        "percent": 100 * ended / total if total else 0,
        "may_cancel": experiment.state == ExperimentState.ACTIVE
        and may_control(person(request), experiment.project, experiment.owner_id),
        **_results(experiment),
    }
    return render(request, "experiments/experiment.html", context)


@login_required
def experiment_results(request: HttpRequest, experiment_id: int) -> HttpResponse:
    """The table and the chart alone: asked for again whenever a run has ended."""
    experiment = experiment_or_404(request, experiment_id)
    return render(request, "experiments/_results.html", {"experiment": experiment, **_results(experiment)})


def _results(experiment: Experiment) -> dict[str, Any]:
    entries = trials_with_runs(experiment.pk)
    trials = results_of(entries)
    comparison = compare_trials(trials, experiment.spec.get("baseline") or {})
    best = best_trial(trials, "output_throughput")
    by_id = {trial["id"]: trial for trial in comparison["trials"]}
    rows = [
        {
            "entry": entry,
            "result": by_id[entry.trial.pk],
            "reasons": sorted({reason for one in entry.runs for reason in one.run.reasons}),
            "best": entry.trial.pk == best and len(entries) > 1,
        }
        for entry in entries
    ]
    used = [name for name in COLUMNS if any(name in trial["metrics"] for trial in by_id.values())]
    front = pareto_front(trials, "interactivity", "output_throughput")
    return {
        "rows": rows,
        "axes": list(experiment.spec.get("matrix") or {}),
        "columns": [
            {"name": name, "largest": max(t["metrics"][name]["median"] for t in by_id.values() if name in t["metrics"])}
            for name in used
        ],
        "has_results": bool(used),
        "any_modelled": any(trial["modelled"] for trial in by_id.values()),
        "tradeoff": tradeoff_figure(comparison["trials"], "interactivity", "output_throughput", front),
        "compare_ids": ",".join(str(entry.trial.pk) for entry in entries),
    }


@login_required
@require_POST
def cancel(request: HttpRequest, experiment_id: int) -> HttpResponse:
    experiment = experiment_or_404(request, experiment_id)
    try:
        cancel_experiment(person(request), experiment)
    except AccessDenied as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "Cancelled: queued runs will not start, those under way are being ended.")
    return redirect("experiment", experiment.pk)
