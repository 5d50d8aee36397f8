"""A file of another tool becomes an experiment: a trial for each of its settings, a run for each of its measurements.

All in one transaction, or nothing. Requests go to the record tables as they are read from the file; the figures are
then computed from them as those of any run (experiments.results). Where the file has no requests, its own figures are
the run's, under this lab's names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.errors import BadParameter
from experiments.importing.results import results_after_commit
from experiments.importing.said import check_storable
from experiments.importing.upload import Upload
from experiments.models import Attempt, AttemptState, Experiment, ExperimentState, Run, RunState, Trial
from experiments.provenance import code_revision
from experiments.recorder.batch import NumberedEvent
from experiments.recorder.store import copy_records
from labsite.accounts.audit import record
from labsite.accounts.models import Project, User
from runners.events import AnyEvent, Report
from runners.interchange.errors import BadFile
from runners.interchange.frozen import NEVER_KNOWN, document_of, run_spec
from runners.interchange.reading import read_file
from runners.interchange.results import ForeignFile, ForeignRun
from runners.plain_text import is_name
from runners.spec import ExperimentSpec
from runners.validity import THRESHOLDS, Reason

MAX_RUNS = 5_000
BATCH = 1_000


def import_foreign(user: User, project: Project, upload: Upload, name: str = "") -> Experiment:
    """The experiment made of the file. Raises BadFile, BadParameter where it holds too many runs."""
    file = read_file(upload.path)
    with transaction.atomic():
        experiment: Experiment | None = None
        trials: dict[str, Trial] = {}
        requests: list[tuple[int, int]] = []
        for position, run in enumerate(file.runs()):
            if position >= MAX_RUNS:
                raise BadParameter("file", f"holds more than {MAX_RUNS} runs", f"at most {MAX_RUNS}")
            check_storable(_texts(file, run), f"run {position}")
            experiment = experiment or _experiment(user, project, upload, file, run, name)
            stored, count = _store_run(experiment, trials, position, file, run)
            if count:
                requests.append((stored.pk, count))
        if experiment is None:
            raise BadFile("", "holds no run", "at least one")
        record(user, "experiment.import", experiment, tool=file.tool, file=upload.name, sha256=upload.sha256)
        results_after_commit(requests)
    return experiment


def _experiment(
    user: User, project: Project, upload: Upload, file: ForeignFile, first: ForeignRun, name: str
) -> Experiment:
    called = (name or (f"{file.tool}: {upload.name}" if is_name(upload.name) else file.tool))[:200]
    document = document_of(first, called)
    now = timezone.now()
    return Experiment.objects.create(
        project=project,
        owner=user,
        name=called,
        document=document,
        spec=ExperimentSpec.model_validate(document).model_dump(mode="json"),
        state=ExperimentState.DONE,
        ended_at=now,
        imported={"tool": file.tool, "version": file.version, "file": upload.name, "bytes": upload.size,
                  "sha256": upload.sha256},
    )  # fmt: skip


def _store_run(
    experiment: Experiment, trials: dict[str, Trial], position: int, file: ForeignFile, found: ForeignRun
) -> tuple[Run, int]:
    """The stored run and how many of its requests were stored."""
    key = json.dumps(dict(found.settings), sort_keys=True)
    trial = trials.get(key)
    if trial is None:
        trial = trials[key] = Trial.objects.create(
            experiment=experiment, index=len(trials), settings=dict(found.settings)
        )
    now = timezone.now()
    run = Run.objects.create(
        experiment=experiment, trial=trial, repeat=trial.runs.count(), position=position,
        state=RunState.SUCCEEDED, spec={}, started_at=now, ended_at=now, imported=_imported(file, found),
    )  # fmt: skip
    spec = run_spec(
        found, run_id=run.pk, experiment_id=experiment.pk, trial_index=trial.index, revision=code_revision()
    )
    run.spec = spec.model_copy(update={"repeat": run.repeat}).model_dump(mode="json")
    count = _store_records(run, file, found) if found.records is not None else 0
    if found.records is None:
        _take_figures(run, found)
    run.save()
    return run, count


def _imported(file: ForeignFile, found: ForeignRun) -> dict[str, Any]:
    return {
        "tool": file.tool,
        "version": file.version,
        "label": found.label[:200],
        "model": found.model[:200],
        "modelled": found.modelled,
        "recomputed": found.records is not None,
        "figures": {name: figure.as_json() for name, figure in found.figures.items()},
        "unmeasured": [*found.unmeasured, *NEVER_KNOWN],
        "unjudged": list(found.unjudged),
        "notes": list(found.notes),
    }


def _texts(file: ForeignFile, found: ForeignRun) -> dict[str, Any]:
    """All that is kept of a run as the file spells it."""
    return {
        "version": file.version,
        "label": found.label,
        "model": found.model,
        "settings": found.settings,
        "notes": list(found.notes),
        "figures": {name: figure.as_json() for name, figure in found.figures.items()},
    }


# Requests


def _store_records(run: Run, file: ForeignFile, found: ForeignRun) -> int:
    assert found.records is not None and found.window is not None  # ForeignRun: both or neither
    zero = min(found.window.start_s, 0.0) if file.tool == "aiperf" else found.window.start_s
    report = Report(
        outcome="succeeded",
        window_start_s=found.window.start_s - zero,
        window_end_s=found.window.end_s - zero,
        facts={"imported_from": file.tool, "tool_version": file.version},
        modelled=found.modelled,
    )
    count = 0
    records = iter(found.records())
    while batch := list(islice(records, BATCH)):
        copy_records(run.pk, 1, list(_numbered(batch, count + 1)))
        count += len(batch)
    report = report.model_copy(update={"events": count + 1})
    copy_records(run.pk, 1, list(_numbered([report], count + 1)))
    run.final_attempt = Attempt.objects.create(
        run=run,
        number=1,
        state=AttemptState.SUCCEEDED,
        phase="done",
        ended_at=timezone.now(),
        stored_seq=count + 1,
        events=count + 1,
        report=report.model_dump(mode="json"),
    )
    run.attempts_made = 1
    return count


def _numbered(events: list[Any], first: int) -> Iterator[NumberedEvent]:
    event: AnyEvent
    for seq, event in enumerate(events, start=first):
        yield NumberedEvent(seq, event)


# Figures alone


def _take_figures(run: Run, found: ForeignRun) -> None:
    reasons = [reason.as_json() for reason in judge_counts(found)]
    run.summary = {
        "metrics": {name: figure.as_metric() for name, figure in found.figures.items()},
        "valid": not reasons,
        "reasons": reasons,
        "modelled": found.modelled,
    }
    run.valid = not reasons
    run.reasons = [reason["code"] for reason in reasons]


def judge_counts(found: ForeignRun) -> list[Reason]:
    """What the tool's own counts say against the run; a file that counts no requests can't be judged so."""
    sent = found.load.num_requests
    if not sent:
        return []
    reasons: list[Reason] = []
    ok, share = sent - found.failed, found.failed / sent
    if ok < THRESHOLDS["too_few_requests"]:
        message = f"{ok} requests finished; at least 20 are needed"
        reasons.append(Reason("too_few_requests", message, float(ok), THRESHOLDS["too_few_requests"]))
    if share > THRESHOLDS["errors_over_1pct"]:
        message = f"{found.failed} of {sent} requests failed"
        reasons.append(Reason("errors_over_1pct", message, share, THRESHOLDS["errors_over_1pct"]))
    return reasons
