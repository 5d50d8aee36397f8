"""Choosing trials of any experiments: a search over the experiments that a person may read, each with its trials."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch
from django.http import HttpRequest

from experiments.models import Trial
from experiments.pages.access import person
from experiments.selectors import readable_experiments

EXPERIMENTS_OFFERED = 12
TRIALS_OFFERED = 40


def offered_trials(request: HttpRequest, chosen: set[int]) -> dict[str, Any]:
    """Experiments whose name holds `q` (without one: the newest), each with the trials not yet `chosen`."""
    query = request.GET.get("q", "").strip()[:200]
    found = readable_experiments(person(request)).order_by("-id")
    if query:
        found = found.filter(name__icontains=query.replace("\0", ""))
    trials = Prefetch("trials", queryset=Trial.objects.order_by("index"))
    offered = [
        {
            "experiment": experiment,
            "trials": [trial for trial in experiment.trials.all() if trial.pk not in chosen][:TRIALS_OFFERED],
        }
        for experiment in found.defer("spec", "document").prefetch_related(trials)[:EXPERIMENTS_OFFERED]
    ]
    return {"q": query, "offered": [one for one in offered if one["trials"]]}
