"""From stored rows to the answers of schemas.py. No queries of its own beyond what it is handed."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from experiments.api.schemas import (
    AttemptOut,
    ExperimentItem,
    ExperimentOut,
    ExperimentRef,
    RunInTrial,
    RunItem,
    RunOut,
    TrialOut,
    TrialRef,
)
from experiments.api.search_out import SearchOut
from experiments.bottlenecks import bottleneck_of, bottlenecks_by_trial, next_experiment
from experiments.models import Attempt, Experiment, Run
from experiments.predictions import prediction_of
from experiments.selectors import RunOnNode, TrialWithRuns


def experiment_item(experiment: Experiment, counts: dict[str, int]) -> ExperimentItem:
    return ExperimentItem(**_experiment_fields(experiment, counts))


def experiment_out(
    experiment: Experiment, counts: dict[str, int], trials: list[TrialWithRuns], search: SearchOut | None
) -> ExperimentOut:
    held_up = bottlenecks_by_trial(trials)
    return ExperimentOut(
        **_experiment_fields(experiment, counts),
        trials=[
            TrialOut(
                id=entry.trial.id,
                index=entry.trial.index,
                settings=entry.trial.settings,
                label=entry.trial.label,
                bottleneck=held_up.get(entry.trial.id),
                runs=[run_in_trial(one) for one in entry.runs],
            )
            for entry in trials
        ],
        spec=experiment.spec,
        document=experiment.document,
        outcome=experiment.outcome,
        search=search,
    )


def _experiment_fields(experiment: Experiment, counts: dict[str, int]) -> dict[str, Any]:
    return {
        "id": experiment.id,
        "name": experiment.name,
        "question": experiment.question,
        "tags": experiment.tags,
        "state": experiment.state,
        "reason": experiment.reason,
        "project": experiment.project.slug,
        "owner": experiment.owner.username,
        "created_at": experiment.created_at,
        "ended_at": experiment.ended_at,
        "url": f"{settings.LAB_URL}/experiments/{experiment.id}/",
        "priority": experiment.priority,
        "cloned_from": experiment.cloned_from_id,
        "imported": experiment.imported,
        "deleted_at": experiment.deleted_at,
        "counts": counts,
    }


def run_in_trial(entry: RunOnNode) -> RunInTrial:
    return RunInTrial(**_run_fields(entry))


def run_item(entry: RunOnNode) -> RunItem:
    """The run, which must have its experiment and trial loaded."""
    return RunItem(**_item_fields(entry))


def run_out(entry: RunOnNode, attempts: list[Attempt], live: dict[str, Any] | None) -> RunOut:
    """The run, which must have its experiment and trial loaded."""
    run = entry.run
    return RunOut(
        **_item_fields(entry),
        summary=run.summary,
        bottleneck=_bottleneck(entry),
        prediction=prediction.as_json() if (prediction := prediction_of(run)) else None,
        spec=run.spec,
        attempts=[attempt_out(attempt) for attempt in attempts],
        live=live,
    )


def _bottleneck(entry: RunOnNode) -> dict[str, Any] | None:
    """With the change that it suggests, by matrix path."""
    found = bottleneck_of(entry.run)
    if found is None:
        return None
    suggested = next_experiment(entry.run, modelled=bool(entry.modelled))
    return found | {"modelled": bool(entry.modelled), "suggests": suggested.change if suggested else None}


def _item_fields(entry: RunOnNode) -> dict[str, Any]:
    run = entry.run
    return {
        **_run_fields(entry),
        "experiment": ExperimentRef(id=run.experiment_id, name=run.experiment.name),
        "trial": TrialRef(id=run.trial_id, index=run.trial.index, settings=run.trial.settings),
        "phase": entry.phase,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "url": f"{settings.LAB_URL}/runs/{run.id}/",
    }


def _run_fields(entry: RunOnNode) -> dict[str, Any]:
    run: Run = entry.run
    return {
        "id": run.id,
        "repeat": run.repeat,
        "position": run.position,
        "state": run.state,
        "valid": run.valid,
        "reasons": run.reasons,
        "reason": run.reason,
        "node": entry.node,
        "modelled": entry.modelled,
        "imported": entry.imported,
        "attempts_made": run.attempts_made,
    }


def attempt_out(attempt: Attempt) -> AttemptOut:
    return AttemptOut(
        number=attempt.number,
        node=attempt.node.slug if attempt.node else None,
        chip=attempt.chip.chip_id if attempt.chip else None,
        state=attempt.state,
        phase=attempt.phase,
        phase_detail=attempt.phase_detail,
        reason=attempt.reason,
        assigned_at=attempt.assigned_at,
        claimed_at=attempt.claimed_at,
        ended_at=attempt.ended_at,
        stored_events=attempt.stored_seq,
        events=attempt.events,
        unreadable_events=attempt.unreadable_events,
        report=attempt.report,
    )
