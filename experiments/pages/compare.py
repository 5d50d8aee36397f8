"""Trials of any experiments side by side. The whole state is in the address, so a link shows the same page."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from experiments.analysis.compare import COMPARED, compare_trials
from experiments.analysis.pareto import pareto_front
from experiments.comparison import MAX_TRIALS, readable_trials, results_of
from experiments.figures.trials import tradeoff_figure
from experiments.models import Trial
from experiments.pages.access import person
from experiments.selectors import experiments_before, readable_experiments

DEFAULT_X, DEFAULT_Y = "interactivity", "output_throughput"
OFFERED = 30


@login_required
def compare(request: HttpRequest) -> HttpResponse:
    user = person(request)
    entries = readable_trials(user, _trial_ids(request))
    trials = results_of(entries)
    x, y = (_metric(request, axis, default) for axis, default in (("x", DEFAULT_X), ("y", DEFAULT_Y)))
    base = request.GET.get("baseline", "")
    ordered = sorted(trials, key=lambda trial: str(trial.id) != base)
    comparison = compare_trials(ordered)
    names = {entry.trial.pk: entry.trial.experiment.name for entry in entries}
    for trial in comparison["trials"]:
        trial["experiment_name"] = names[trial["id"]]
    context = {
        "section": "compare",
        "trials": comparison["trials"],
        "metrics": _metric_rows(comparison),
        "has_figures": any(trial["metrics"] for trial in comparison["trials"]),
        "many": len({entry.trial.experiment_id for entry in entries}) > 1,
        "mixed": len({trial["modelled"] for trial in comparison["trials"]}) > 1,
        "x": x,
        "y": y,
        "choices": list(COMPARED),
        "figure": tradeoff_figure(comparison["trials"], x, y, pareto_front(trials, x, y)),
        "offered": experiments_before(user, None, OFFERED)[:OFFERED] if not entries else [],
        "ids": ",".join(str(trial.id) for trial in trials),
    }
    return render(request, "experiments/compare.html", context)


def _trial_ids(request: HttpRequest) -> list[int]:
    """`trials=1,2` (also repeated), and every trial of each `experiment=` that the user may read."""
    parts = ",".join(request.GET.getlist("trials")).split(",")
    ids = [int(part) for part in parts if part.isdecimal() and len(part) < 19]
    wanted = [int(part) for part in request.GET.getlist("experiment") if part.isdecimal() and len(part) < 19]
    if wanted:
        found = Trial.objects.filter(experiment__in=readable_experiments(person(request)).filter(id__in=wanted))
        ids += list(found.order_by("experiment_id", "index").values_list("id", flat=True)[:MAX_TRIALS])
    return ids


def _metric(request: HttpRequest, key: str, default: str) -> str:
    wanted = request.GET.get(key, "")
    return wanted if wanted in COMPARED else default


def _metric_rows(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each metric that any trial has: its value in each trial, and the difference to the first."""
    differences = {(row["metric"], row["trial"]): row for row in comparison["differences"]}
    rows = []
    for name, (unit, more_is_better) in COMPARED.items():
        cells = [
            {"metric": trial["metrics"].get(name), "difference": differences.get((name, trial["id"]))}
            for trial in comparison["trials"]
        ]
        medians = [cell["metric"]["median"] for cell in cells if cell["metric"]]
        if medians:
            rows.append({"name": name, "unit": unit, "better": more_is_better, "largest": max(medians), "cells": cells})
    return rows
