"""A bundle of another lab becomes an experiment with the same runs and records, under ids of our own.

The other lab's figures are kept beside ours, which are computed here from its records: the same code gives the same
numbers to the bit, and where they differ that is listed. Nothing in a bundle is trusted: each record is read as one
from a node would be, specs must be specs, and texts stay texts. All in one transaction, or nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Any, Literal

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from pydantic import Field, ValidationError

from experiments.imported import OWN_TOOL
from experiments.importing.results import results_after_commit
from experiments.importing.said import ImportedSaid, PredictionSaid, Said, SummarySaid, check_storable
from experiments.importing.upload import Upload
from experiments.models import Attempt, AttemptState, Experiment, ExperimentState, Run, RunState, Trial
from experiments.recorder.batch import NumberedEvent
from experiments.recorder.store import copy_records
from experiments.search.stored import searched_paths
from experiments.services.goals import goal_faults
from labsite.accounts.audit import record
from labsite.accounts.models import Project, User
from runners.events import EVENT, Report
from runners.interchange.bundle import EXPERIMENT, KINDS, MANIFEST, Bundle
from runners.interchange.errors import BadFile
from runners.interchange.lines import parse_line
from runners.spec import ExperimentSpec, RunSpec
from runners.spec.base import Name, Setting, Tag, Text

BATCH = 1_000
MAX_SEQ = 2**62


class AttemptSaid(Said):
    number: int = Field(ge=1, le=1_000)
    state: Literal["succeeded", "failed", "cancelled", "lost"]
    reason: str = Field(default="", max_length=20_000)
    unreadable_events: int = Field(default=0, ge=0, le=2**31 - 1)
    report: Report | None = None
    modelled: bool = False
    node: dict[str, Any] | None = None
    chip: dict[str, Any] | None = None


class RunSaid(Said):
    trial: int = Field(ge=0)
    repeat: int = Field(ge=0, le=100_000)
    position: int = Field(ge=0, le=999_999)
    state: Literal["succeeded", "failed", "cancelled"]
    reason: str = Field(default="", max_length=20_000)
    spec: RunSpec
    summary: SummarySaid | None = None
    valid: bool | None = None
    reasons: list[str] = Field(default_factory=list, max_length=100)
    prediction: PredictionSaid | None = None
    imported: ImportedSaid | None = None
    started_at: str | None = None
    ended_at: str | None = None
    attempt: AttemptSaid | None = None


class TrialSaid(Said):
    index: int = Field(ge=0, le=100_000)
    settings: dict[str, Setting]
    label: str = Field(default="", max_length=60)


class ExperimentSaid(Said):
    name: Name
    question: Text = ""
    tags: list[Tag] = Field(default_factory=list, max_length=20)
    document: dict[str, Any]
    spec: ExperimentSpec
    trials: list[TrialSaid] = Field(min_length=1, max_length=5_000)
    runs: list[RunSaid] = Field(min_length=1, max_length=5_000)


def import_bundle(user: User, project: Project, upload: Upload, name: str = "") -> Experiment:
    """The experiment made of the bundle. Raises BadFile."""
    with Bundle(upload.path) as bundle:
        said = _read(bundle)
        with transaction.atomic():
            experiment = _experiment(user, project, upload, bundle.lab, said, name)
            trials = {one.index: _trial(experiment, one) for one in said.trials}
            requests = []
            for one in said.runs:
                if one.trial not in trials:
                    raise BadFile(EXPERIMENT, f"a run is of trial {one.trial}, which is not there")
                run, count = _run(experiment, trials[one.trial], one, bundle)
                requests.append((run.pk, count))
            record(user, "experiment.import", experiment, tool=OWN_TOOL, file=upload.name, sha256=upload.sha256)
            results_after_commit(requests)
    return experiment


def _read(bundle: Bundle) -> ExperimentSaid:
    found = bundle.experiment()
    check_storable(found, EXPERIMENT)
    check_storable(bundle.lab, MANIFEST)
    try:
        said = ExperimentSaid.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadFile(f"{EXPERIMENT} {where}", first["msg"]) from error
    for names, what in (
        ([one.index for one in said.trials], "trials of one index"),
        ([one.position for one in said.runs], "runs at one position"),
        ([(one.trial, one.repeat) for one in said.runs], "runs of one trial and repeat"),
    ):
        if len(set(names)) != len(names):
            raise BadFile(EXPERIMENT, f"holds two {what}")
    _check_search(said)
    return said


def _check_search(said: ExperimentSaid) -> None:
    """A search is shown by what its figures say of the settings that it set: both must be there."""
    for fault in goal_faults(said.spec):
        raise BadFile(f"{EXPERIMENT} spec.{fault.field}", fault.message)
    for path in searched_paths(said.spec.model_dump(mode="json")):
        for place, trial in enumerate(said.trials):
            if path not in trial.settings:
                raise BadFile(f"{EXPERIMENT} trials.{place}.settings", f"lacks {path}, which the search sets", path)


def _experiment(user: User, project: Project, upload: Upload, lab: str, said: ExperimentSaid, name: str) -> Experiment:
    return Experiment.objects.create(
        project=project,
        owner=user,
        name=(name or said.name)[:200],
        question=said.question,
        tags=said.tags,
        document=said.document,
        spec=said.spec.model_dump(mode="json"),
        state=ExperimentState.DONE,
        ended_at=timezone.now(),
        imported={"tool": OWN_TOOL, "version": lab, "file": upload.name, "bytes": upload.size,
                  "sha256": upload.sha256},
    )  # fmt: skip


def _trial(experiment: Experiment, said: TrialSaid) -> Trial:
    return Trial.objects.create(experiment=experiment, index=said.index, settings=said.settings, label=said.label)


def _run(experiment: Experiment, trial: Trial, said: RunSaid, bundle: Bundle) -> tuple[Run, int]:
    """The run, and how many events of it were stored."""
    attempt = said.attempt
    run = Run.objects.create(
        experiment=experiment,
        trial=trial,
        repeat=said.repeat,
        position=said.position,
        state=RunState(said.state),
        reason=said.reason,
        spec={},
        prediction=said.prediction and said.prediction.model_dump(mode="json", exclude_unset=True),
        attempts_made=attempt.number if attempt else 0,
        started_at=_time(said.started_at),
        ended_at=_time(said.ended_at) or timezone.now(),
        imported=_imported(bundle.lab, said),
    )
    spec = said.spec.model_copy(
        update={"run_id": run.pk, "experiment_id": experiment.pk, "trial_index": trial.index, "repeat": said.repeat}
    )
    run.spec = spec.model_dump(mode="json")
    count = 0
    if attempt is None:
        run.summary = said.summary and said.summary.model_dump(mode="json")
        run.valid, run.reasons = said.valid, said.reasons
    else:
        count = _records(run, attempt, said.position, bundle)
    run.save()
    return run, count


def _imported(lab: str, said: RunSaid) -> dict[str, Any]:
    """What it was where it comes from. A run that was imported there too keeps what was said of it."""
    earlier = said.imported or ImportedSaid()
    attempt = said.attempt
    return {
        "tool": earlier.tool or OWN_TOOL,
        "version": lab,
        "label": "",
        "model": said.spec.model.name,
        "modelled": bool(attempt.modelled if attempt else earlier.modelled),
        "recomputed": attempt is not None,
        "figures": _figures(said.summary) if said.summary else {},
        "unmeasured": earlier.unmeasured,
        "unjudged": earlier.unjudged,
        "notes": [],
        "node": attempt.node if attempt else None,
        "chip": attempt.chip if attempt else None,
    }


def _figures(summary: SummarySaid) -> dict[str, Any]:
    """The other lab's figures, as runners.interchange.results.Figure has them."""
    return {
        name: {"theirs": name, "value": metric.value, "unit": metric.unit, "n": metric.n, "mean": None,
               "percentiles": {key: point.value for key, point in metric.percentiles.items()}}
        for name, metric in summary.metrics.items()
    }  # fmt: skip


# Records


def _records(run: Run, said: AttemptSaid, position: int, bundle: Bundle) -> int:
    """Stores them in the order of their numbers, as the recorder would have."""
    numbered = _in_order(bundle, position)
    count, last = 0, 0
    while batch := list(islice(numbered, BATCH)):
        for one in batch:
            if one.seq <= last:
                raise BadFile(f"run {position}", f"two records have the number {one.seq}")
            last = one.seq
        copy_records(run.pk, said.number, batch)
        count += len(batch)
    report = said.report.model_dump(mode="json") if said.report else None
    run.final_attempt = Attempt.objects.create(
        run=run,
        number=said.number,
        state=AttemptState(said.state),
        reason=said.reason,
        phase="done" if report else "",
        ended_at=run.ended_at,
        stored_seq=last,
        events=last if report else None,
        unreadable_events=said.unreadable_events,
        report=report,
    )
    return count


def _in_order(bundle: Bundle, position: int) -> Iterator[NumberedEvent]:
    return merge(*(_events(bundle, position, kind) for kind in KINDS), key=lambda one: one.seq)


def _events(bundle: Bundle, position: int, kind: str) -> Iterator[NumberedEvent]:
    for where, line in bundle.lines(position, kind):
        data = parse_line(line, where)
        seq = data.pop("seq", None)
        if isinstance(seq, bool) or not isinstance(seq, int) or not 0 < seq < MAX_SEQ:
            raise BadFile(where, f"{seq!r:.40} is no number of a record")
        try:
            event = EVENT.validate_python(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise BadFile(f"{where} {'.'.join(map(str, first['loc']))}", first["msg"]) from error
        if event.kind != kind and not (kind == "status" and event.kind == "report"):
            raise BadFile(where, f"is a {event.kind} among the records of kind {kind}")
        yield NumberedEvent(seq, event)


def _time(text: str | None) -> dt.datetime | None:
    try:
        found = parse_datetime(text) if text else None
    except ValueError as error:
        raise BadFile(EXPERIMENT, f"{text!r:.40} is no time") from error
    return found if found is not None and found.tzinfo is not None else None
