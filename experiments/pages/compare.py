"""Trials of any experiments side by side. The whole state is in the address, so a link shows the same page.

Of many trials it shows fewer metrics, so that the page opens at once and can be read; a link shows every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from experiments.analysis.assumed import assume
from experiments.analysis.compare import COMPARED, TrialResult, compare_trials, verdict_of
from experiments.analysis.distributions import pool
from experiments.analysis.pareto import pareto_front
from experiments.analysis.speculative import bands_by_trial
from experiments.assumptions import kept_fields, node_inputs, read_assumed
from experiments.comparison import MAX_TRIALS, distributions_of, readable_trials, results_of
from experiments.engine_names import unsaid_engines
from experiments.figures.distributions import TrialDistribution, box_figure, curve_figure
from experiments.figures.trials import tradeoff_figure
from experiments.models import Trial
from experiments.pages.access import person
from experiments.pages.held_up import held_up_side_by_side
from experiments.pages.trial_picker import offered_trials
from experiments.quality import quality_panel, trial_quality
from experiments.selectors import TrialWithRuns, readable_experiments
from runners.display import settings_label

CHOICES = ("x", "y", "latency", "baseline", "figures")
DEFAULT_X, DEFAULT_Y, DEFAULT_LATENCY = "interactivity", "output_throughput", "ttft"
LATENCIES = ("ttft", "effective_ttft", "tpot", "itl", "icl", "e2el", "interactivity", "queue_wait", "prefill_time")
MOST_CELLS = 800
MOST_CURVES = 24
LEAD = ("output_throughput", "goodput", "interactivity", "ttft", "ttft_p95", "tpot", "itl_p95", "e2el")


@login_required
def compare(request: HttpRequest) -> HttpResponse:
    entries = readable_trials(person(request), _trial_ids(request))
    assumed, fault = read_assumed(request.GET)
    trials = assume(results_of(entries), assumed)
    base = request.GET.get("baseline", "")
    found = _metrics_found(request, trials)
    every = request.GET.get("figures") == "all"
    shown = found if every else found[: _most_metrics(len(trials))]
    in_order = sorted(trials, key=lambda trial: str(trial.id) != base)
    comparison = compare_trials(in_order, metrics=[name for name in COMPARED if name in shown])
    many = len({entry.trial.experiment_id for entry in entries}) > 1
    _name_trials(comparison["trials"], entries, many)
    labels = {trial["id"]: trial["label"] for trial in comparison["trials"]}
    context = {
        "section": "compare",
        "trials": comparison["trials"],
        "metrics": _metric_rows(comparison),
        "num_metrics": len(found),
        "every_metric": every,
        "has_figures": any(trial["metrics"] for trial in comparison["trials"]) or bool(bands_by_trial(trials)),
        "many": many,
        "any_modelled": any(trial["modelled"] for trial in comparison["trials"]),
        "mixed": len({trial["modelled"] for trial in comparison["trials"]}) > 1,
        "ids": ",".join(str(trial.id) for trial in trials),
        **_tradeoff(request, trials, comparison),
        **_distributions(request, trials, comparison),
        **_differences(comparison),
        **quality_panel(trial_quality(entries, names=labels), of_trials=True),
        **held_up_side_by_side(entries, comparison["trials"]),
        "assumed": assumed,
        "assumed_fault": fault,
        "node_inputs": node_inputs(trials, request.GET),
        "assumed_fields": kept_fields(request.GET),
        "assumed_kept": _kept(request, trials),
        **offered_trials(request, {entry.trial.pk for entry in entries}),
    }
    return render(request, "experiments/compare.html", context)


@login_required
def compare_offer(request: HttpRequest) -> HttpResponse:
    """The trials that a search offers: a part of the page, asked for as one types."""
    return render(request, "experiments/_trial_picker.html", offered_trials(request, set(_trial_ids(request))))


def _kept(request: HttpRequest, trials: Sequence[TrialResult]) -> dict[str, str]:
    """The rest of the page's state, which the form of prices sends along."""
    chosen = {name: request.GET[name] for name in CHOICES if request.GET.get(name)}
    return {"trials": ",".join(str(trial.id) for trial in trials)} | chosen


def _trial_ids(request: HttpRequest) -> list[int]:
    """`trials=1,2` (also repeated), and every trial of each `experiment=` that the user may read."""
    parts = ",".join(request.GET.getlist("trials")).split(",")
    dropped = set(request.GET.getlist("drop"))
    ids = [int(part) for part in parts if _is_id(part) and part not in dropped]
    wanted = [int(part) for part in request.GET.getlist("experiment") if _is_id(part)]
    if wanted:
        found = Trial.objects.filter(experiment__in=readable_experiments(person(request)).filter(id__in=wanted))
        ids += list(found.order_by("experiment_id", "index").values_list("id", flat=True)[:MAX_TRIALS])
    return ids


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _name_trials(trials: Sequence[dict[str, Any]], entries: Sequence[TrialWithRuns], many: bool) -> None:
    """Gives each trial its experiment's name, and a label that tells it from the others on the page."""
    names = {entry.trial.pk: entry.trial.experiment.name for entry in entries}
    engines = unsaid_engines(entry.trial.experiment_id for entry in entries)
    on = {entry.trial.pk: engines.get(entry.trial.experiment_id) for entry in entries}
    for trial in trials:
        trial["experiment_name"] = names[trial["id"]]
        engine = on[trial["id"]] if "engine.kind" not in trial["settings"] else None
        told = [trial["label"] or settings_label(trial["settings"]), *([f"on {engine}"] if engine else [])]
        trial["label"] = " · ".join([*told, *([names[trial["id"]][:40]] if many else [])])


def _metrics_found(request: HttpRequest, trials: Sequence[TrialResult]) -> list[str]:
    """The metrics that any trial has: those on the axes first, then those that lead, then all others."""
    runs = (run for trial in trials for run in trial.valid_runs())
    known = {name for run in runs for name, value in run.values.items() if value is not None}
    return [name for name in dict.fromkeys((*_axes(request), *LEAD, *COMPARED)) if name in known]


def _most_metrics(num_trials: int) -> int:
    """How many are shown of so many trials at first."""
    return max(2, MOST_CELLS // max(num_trials, 1))


def _axes(request: HttpRequest) -> tuple[str, str]:
    """The metrics of the trade-off: across, and up."""
    choices = list(COMPARED)
    return _metric(request, "x", DEFAULT_X, choices), _metric(request, "y", DEFAULT_Y, choices)


def _metric(request: HttpRequest, key: str, default: str, allowed: Sequence[str]) -> str:
    wanted = request.GET.get(key, "")
    return wanted if wanted in allowed else default


def _tradeoff(request: HttpRequest, trials: Sequence[TrialResult], comparison: dict[str, Any]) -> dict[str, Any]:
    x, y = _axes(request)
    bands = bands_by_trial(trials)
    figure = tradeoff_figure(comparison["trials"], x, y, pareto_front(trials, x, y), bands)
    return {"x": x, "y": y, "choices": list(COMPARED), "figure": figure, "speculative": bool(bands)}


def _distributions(request: HttpRequest, trials: Sequence[TrialResult], comparison: dict[str, Any]) -> dict[str, Any]:
    """Curves and boxes of one latency, over the requests of the valid runs of as many trials as can be told apart."""
    latency = _metric(request, "latency", DEFAULT_LATENCY, LATENCIES)
    first = comparison["trials"][:MOST_CURVES]
    ids = {trial["id"] for trial in first}
    valid = {trial.id: [run.id for run in trial.valid_runs()] for trial in trials if trial.id in ids}
    stored = distributions_of([run_id for runs in valid.values() for run_id in runs])
    drawn = [
        TrialDistribution(trial["label"], hue, trial["modelled"], pooled, trial.get("imported", False))
        for hue, trial in enumerate(first)
        if (pooled := pool([stored.get(run_id) for run_id in valid[trial["id"]]], latency))
    ]
    unit = COMPARED[latency][0]
    return {
        "latency": latency,
        "latencies": LATENCIES,
        "curves": curve_figure(drawn, latency, unit) if drawn else None,
        "boxes": box_figure(drawn, latency, unit) if drawn else None,
        "box_rows": len(drawn),
        "distributed": drawn,
        "undrawn": len(comparison["trials"]) - len(first),
    }


def _differences(comparison: dict[str, Any]) -> dict[str, Any]:
    """Every difference to the baseline as a row, those of the leading metrics apart from the rest."""
    by_id = {trial["id"]: trial for trial in comparison["trials"]}
    base: dict[str, Any] = next((trial["metrics"] for trial in comparison["trials"] if trial["baseline"]), {})
    rows = [
        row
        | {
            "unit": COMPARED[row["metric"]][0],
            "before": base.get(row["metric"]),
            "after": by_id[row["trial"]]["metrics"].get(row["metric"]),
            "label": by_id[row["trial"]]["label"],
            "verdict": verdict_of(row),
        }
        for row in comparison["differences"]
    ]
    order = {name: place for place, name in enumerate([*LEAD, *COMPARED])}
    rows.sort(key=lambda row: order[row["metric"]])
    return {
        "lead_differences": [row for row in rows if row["metric"] in LEAD],
        "other_differences": [row for row in rows if row["metric"] not in LEAD],
    }


def _metric_rows(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each metric that any trial has: its value in each trial, and the difference to the first."""
    differences = {(row["metric"], row["trial"]): row for row in comparison["differences"]}
    rows = []
    for name, meaning in comparison["metrics"].items():
        cells = [
            {"metric": trial["metrics"].get(name), "difference": differences.get((name, trial["id"]))}
            for trial in comparison["trials"]
        ]
        medians = [cell["metric"]["median"] for cell in cells if cell["metric"]]
        if medians:
            rows.append({"name": name, "unit": meaning["unit"], "largest": max(medians), "cells": cells})
    return rows
