"""From an experiment's stored trials to its ladders. What each step gains is in experiments.analysis.waterfall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.analysis.compare import COMPARED, TrialResult
from experiments.analysis.waterfall import Waterfall, waterfall
from experiments.comparison import results_of
from experiments.models import Experiment
from experiments.selectors import TrialWithRuns, trials_with_runs


@dataclass(frozen=True)
class Ladder:
    """The trials of one combination of the matrix, its foot first; `settings` are that combination."""

    settings: dict[str, Any]
    labels: tuple[str, ...]
    trials: tuple[TrialResult, ...]

    def waterfall(self, metric: str) -> Waterfall:
        return waterfall(self.labels, self.trials, metric)

    @property
    def metrics(self) -> list[str]:
        """Those that any of its trials has."""
        return [name for name in COMPARED if any(trial.values(name) for trial in self.trials)]


def is_ladder(spec: Mapping[str, Any]) -> bool:
    """Whether an experiment's spec lays its trials out as one."""
    design = spec.get("design")
    return isinstance(design, Mapping) and design.get("kind") == "ladder"


def axes_of(spec: Mapping[str, Any]) -> list[str]:
    """The paths that tell an experiment's trials apart: those of its matrix, then all that a ladder's steps set."""
    steps = spec["design"]["steps"] if is_ladder(spec) else ()
    return list(dict.fromkeys([*(spec.get("matrix") or {}), *(path for step in steps for path in step["set"])]))


def ladders_of(experiment: Experiment) -> list[Ladder]:
    """All of an experiment's; none where its design is another."""
    if not is_ladder(experiment.spec):
        return []
    entries = trials_with_runs(experiment.pk)
    return group_ladders(experiment.spec, entries, results_of(entries))


def group_ladders(
    spec: Mapping[str, Any], entries: Sequence[TrialWithRuns], results: Sequence[TrialResult]
) -> list[Ladder]:
    """The stored trials, in their order, by ladder: each is as long as its steps and the foot."""
    if not is_ladder(spec):
        return []
    length = 1 + len(spec["design"]["steps"])
    axes = spec.get("matrix") or {}
    found = []
    for start in range(0, len(entries), length):
        part = entries[start : start + length]
        settings = {path: value for path, value in part[0].trial.settings.items() if path in axes}
        labels = tuple(entry.trial.label for entry in part)
        found.append(Ladder(settings, labels, tuple(results[start : start + length])))
    return found
