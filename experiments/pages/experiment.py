"""One experiment: its document, how far it is, and what it found so far. What can be done to it is in `control`."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from experiments.analysis.assumed import assume
from experiments.analysis.compare import compare_trials
from experiments.analysis.pareto import best_trial, pareto_front
from experiments.analysis.speculative import Band, bands_by_trial
from experiments.assumptions import kept_fields, node_inputs, read_assumed
from experiments.bottlenecks import bottlenecks_by_trial
from experiments.comparison import results_of
from experiments.figures.trials import tradeoff_figure
from experiments.form.rewrite import write
from experiments.ladders import axes_of, group_ladders, is_ladder
from experiments.models import EXPERIMENT_OPEN, Experiment
from experiments.pages.access import experiment_or_404, person
from experiments.pages.heatmap import heat_map
from experiments.pages.ladder import ladder_panel
from experiments.pages.rows import progress_of
from experiments.pages.search import search_panel
from experiments.quality import quality_panel, trial_quality
from experiments.search.stored import searched_paths, searches_of
from experiments.selectors import count_runs, models_of, readable_experiments, trials_with_runs
from experiments.shipped import example_of
from labsite.accounts.models import Role
from labsite.accounts.permissions import may_control, role_in
from runners.document import FieldError

COLUMNS = ("output_throughput", "interactivity", "ttft", "ttft_p95", "tpot", "itl_p95", "e2el", "goodput", "kv_use")
# What the chart shows against interactivity: throughput, of what it takes too.
AGAINST = (
    "output_throughput",
    "output_throughput_per_chip",
    "output_throughput_per_kw",
    "output_tokens_per_usd",
    "total_throughput",
    "goodput",
    "energy_per_output_token",
    "cost_per_million_output_tokens",
    "interconnect_tax",
)
EXPORTS = ("runs", "requests", "samples", "steps", "log")
FORMATS = ("csv", "jsonl", "parquet")
CLONES_SHOWN = 10


@login_required
def show_experiment(request: HttpRequest, experiment_id: int) -> HttpResponse:
    experiment = experiment_or_404(request, experiment_id)
    return render(request, "experiments/experiment.html", _context(request, experiment))


def show_with_edit(
    request: HttpRequest,
    experiment: Experiment,
    typed: Mapping[str, str],
    faults: Sequence[FieldError],
    status: int = 422,
) -> HttpResponse:
    """The page after an edit that was refused: the form holds what was typed, and says what is wrong with it."""
    context = _context(request, experiment) | {"edit": typed, "edit_faults": faults}
    return render(request, "experiments/experiment.html", context, status=status)


@login_required
def experiment_results(request: HttpRequest, experiment_id: int) -> HttpResponse:
    """The table and the charts alone: asked for again whenever a run has ended."""
    experiment = experiment_or_404(request, experiment_id)
    context = {"experiment": experiment, **_results(experiment, request.GET.dict())}
    return render(request, "experiments/_results.html", context)


def _context(request: HttpRequest, experiment: Experiment) -> dict[str, Any]:
    user = person(request)
    mine = may_control(user, experiment.project, experiment.owner_id)
    role = role_in(user, experiment.project)
    clones = readable_experiments(user).filter(cloned_from=experiment.pk).order_by("-id").values("pk", "name")
    return {
        "section": "experiments",
        "experiment": experiment,
        "document": write(experiment.document),
        "progress": progress_of(count_runs([experiment.pk])[experiment.pk]),
        "may_control": mine,
        "is_open": experiment.state in EXPERIMENT_OPEN,
        "may_submit": role is not None and role >= Role.RESEARCHER,
        "example": example_of(experiment.tags),
        "models": models_of(experiment.pk),
        "origin": readable_experiments(user).filter(clones=experiment.pk).first(),
        "clones": clones[:CLONES_SHOWN],
        "exports": EXPORTS,
        "formats": FORMATS,
        "once": secrets.token_urlsafe(16),
        "edit": {
            "name": experiment.name,
            "question": experiment.question,
            "tags": ", ".join(experiment.tags),
            "priority": experiment.priority,
        },
        **_results(experiment, request.GET.dict()),
    }


def _results(experiment: Experiment, asked: Mapping[str, str]) -> dict[str, Any]:
    entries = trials_with_runs(experiment.pk)
    assumed, fault = read_assumed(asked)
    trials = assume(results_of(entries), assumed)
    comparison = compare_trials(trials, experiment.spec.get("baseline") or {})
    matrix = experiment.spec.get("matrix") or {}
    best = best_trial(trials, "output_throughput")
    by_id = {trial["id"]: trial for trial in comparison["trials"]}
    bands, held_up = bands_by_trial(trials), bottlenecks_by_trial(entries)
    rows = [
        {
            "entry": entry,
            "result": by_id[entry.trial.pk],
            "bands": bands.get(entry.trial.pk, {}),
            "held_up": held_up.get(entry.trial.pk),
            "reasons": sorted({reason for one in entry.runs for reason in one.run.reasons}),
            "best": entry.trial.pk == best and len(entries) > 1,
        }
        for entry in entries
    ]
    found = {name for trial in by_id.values() for name in trial["metrics"]} | {
        name for of_trial in bands.values() for name in of_trial
    }
    choices = [name for name in AGAINST if name in found]
    against = asked.get("against", "")
    against = against if against in choices else AGAINST[0]
    used = [name for name in dict.fromkeys((*COLUMNS, against)) if name in found]
    front = pareto_front(trials, "interactivity", against)
    return {
        "rows": rows,
        "judged": sum(one.run.valid is not None for entry in entries for one in entry.runs),
        "any_held_up": bool(held_up),
        "assumed": assumed,
        "assumed_fault": fault,
        "node_inputs": node_inputs(trials, asked),
        "assumed_kept": {name: value for name, value in asked.items() if name not in kept_fields(asked)},
        "is_ladder": is_ladder(experiment.spec),
        "axes": [*axes_of(experiment.spec), *searched_paths(experiment.spec)],
        "search": search_panel(searches_of(experiment, entries, trials), asked, any(one.modelled for one in trials)),
        "columns": [{"name": name, "largest": _largest(name, by_id.values(), bands.values())} for name in used],
        "has_results": bool(used),
        **quality_panel(trial_quality(entries), of_trials=True),
        "speculative": bool(bands),
        "any_modelled": any(trial["modelled"] for trial in by_id.values()),
        "against": against,
        "against_choices": choices,
        "without_against": sum(bool(t["metrics"]) and against not in t["metrics"] for t in by_id.values()),
        "asked": asked,
        "tradeoff": tradeoff_figure(comparison["trials"], "interactivity", against, front, bands),
        "ladder": ladder_panel(group_ladders(experiment.spec, entries, trials), asked),
        "heat": heat_map(matrix, comparison["trials"], asked, bands),
        "compare_ids": ",".join(str(entry.trial.pk) for entry in entries),
    }


def _largest(metric: str, trials: Iterable[Mapping[str, Any]], bands: Iterable[Mapping[str, Band]]) -> float:
    """What sets the unit of a column."""
    points = [trial["metrics"][metric]["median"] for trial in trials if metric in trial["metrics"]]
    return float(max([*points, *(of_trial[metric].high for of_trial in bands if metric in of_trial)]))
