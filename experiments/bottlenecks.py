"""What held runs and trials up, as it was judged when their results were stored, and the experiment that would show it.

The judging is in experiments.analysis.bottleneck. A run whose results are of before has no verdict until they are
computed again (`manage.py results`); a cancelled one never has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from experiments.analysis.bottleneck import CAUSES, common_cause, suggest
from experiments.models import Run
from experiments.selectors import TrialWithRuns
from runners.document import SpecError
from runners.matrix import apply_settings, plan_experiment
from runners.spec import RunSpec

LONGEST_NAME = 200


@dataclass(frozen=True)
class NextExperiment:
    """`change` is what is compared, by matrix path; `document` the whole experiment, which can be submitted."""

    change: Mapping[str, list[Any]]
    document: Mapping[str, Any]

    @property
    def words(self) -> str:
        return "; ".join(f"{path}: {', '.join(map(str, values))}" for path, values in self.change.items())


def bottleneck_of(run: Run) -> dict[str, Any] | None:
    """The verdict as stored; None where there is none."""
    found = (run.summary or {}).get("bottleneck")
    return found if isinstance(found, dict) else None


def bottlenecks_by_trial(entries: Iterable[TrialWithRuns]) -> dict[int, dict[str, Any]]:
    """Of each trial that has one, what most of its valid runs were held up by, with the argument of one of them."""
    found = {}
    for entry in entries:
        verdicts = [verdict for one in entry.runs if one.run.valid and (verdict := bottleneck_of(one.run))]
        common = common_cause(verdicts)
        if common is not None:
            named = next(verdict for verdict in verdicts if verdict["kind"] == common["kind"])
            cause = named["causes"][0]
            found[entry.trial.pk] = common | {"score": cause["score"], "says": cause["says"]}
    return found


def next_experiment(run: Run, *, modelled: bool) -> NextExperiment | None:
    """What the run's bottleneck suggests to compare next, in its trial's document. None where nothing is suggested, or
    where the document as it is now can't be run with it. The run must have its experiment and trial loaded."""
    verdict = bottleneck_of(run)
    kind = verdict["kind"] if verdict else None
    if kind not in CAUSES:
        return None
    try:
        change = suggest(kind, RunSpec.model_validate(run.spec), modelled=modelled)
        document = _document(run, kind, change) if change else None
    except (SpecError, ValidationError):
        return None
    return NextExperiment(change, document) if document is not None else None


def _document(run: Run, kind: str, change: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Raises SpecError where it is none that could be submitted."""
    told = {key: value for key, value in run.experiment.document.items() if key != "search"}
    base = apply_settings(told, run.trial.settings)
    name = f"{base.get('name', 'Experiment')} · {CAUSES[kind].split(':')[0].lower()}?"
    document = base | {
        "name": name[:LONGEST_NAME],
        "question": f"Does another {', '.join(change)} lift what held run {run.pk} up: {CAUSES[kind]}?",
        "matrix": {path: list(values) for path, values in change.items()},
        "baseline": {path: values[0] for path, values in change.items()},
    }
    plan_experiment(document)
    return document
